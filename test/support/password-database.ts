// A real Postgres with a database that a login with a password may use, prepared as docs/database.md says.
import { chmod, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import pg from 'pg';
import { startPostgres } from './postgres.ts';

export interface PasswordDatabase {
  /** The password is in it, as a URL writes it. */
  url: string;
  /** As `url`, with other parts. */
  urlWith(parts: { password?: string; host?: string; options?: string }): string;
  /** One statement as the administrator. */
  query(text: string, values: unknown[]): Promise<void>;
  /** Every row of every table, as text. */
  rows(): Promise<string>;
  stop(): Promise<void>;
}

const LOGIN = 'djinnd_login';

export async function startPasswordDatabase(password: string): Promise<PasswordDatabase> {
  const server = await startPostgres();
  const { database } = await server.createDatabase();
  const admin = new pg.Client({ host: server.host, user: 'admin', database });
  admin.on('error', () => {}); // the server ends first
  await admin.connect();
  await admin.query(`create role ${LOGIN} login password ${admin.escapeLiteral(password)}`);
  await admin.query(`grant djinnd_owner, djinnd_app, djinnd_operator to ${LOGIN}`);
  await admin.query(`grant create on database ${database} to djinnd_owner`);
  await writeFile(
    join(server.host, 'data/pg_hba.conf'),
    'local all admin trust\nlocal all all scram-sha-256\n',
  );
  await admin.query('select pg_reload_conf()');
  await chmod(server.host, 0o711); // the daemon's user reaches the socket by its name
  const urlWith = ({ password: given = password, host = server.host, options = '' } = {}) =>
    `postgresql://${LOGIN}:${encodeURIComponent(given)}@/${database}?host=${encodeURIComponent(host)}${options}`;

  async function rows(): Promise<string> {
    const tables = await admin.query<{ name: string }>(
      `select format('%I.%I', table_schema, table_name) as name from information_schema.tables
        where table_type = 'BASE TABLE' and table_schema not in ('pg_catalog', 'information_schema')`,
    );
    const texts: string[] = [];
    for (const { name } of tables.rows) {
      const found = await admin.query<{ row: string }>(`select t::text as row from ${name} t`);
      texts.push(...found.rows.map(({ row }) => `${name} ${row}`));
    }
    return texts.join('\n');
  }

  return {
    url: urlWith(),
    urlWith,
    async query(text, values) {
      await admin.query(text, values);
    },
    rows,
    async stop() {
      await admin.end();
      await server.stop();
    },
  };
}
