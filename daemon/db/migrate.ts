// Brings the database to this version: numbered SQL files, forward only, each in its own transaction and checksummed.
// Safe to run from several processes at once and after a kill at any point.
import { createHash } from 'node:crypto';
import { readdir, readFile } from 'node:fs/promises';
import { join } from 'node:path';
import pg from 'pg';
import type { Logger } from '../log.ts';
import { clientConfig, type DatabaseOptions } from './pool.ts';
import { installQueue } from './queue.ts';
import { ensureRoles } from './roles.ts';

/** The files and the database do not fit together; the message says what to do. */
export class MigrationError extends Error {}

interface Migration {
  version: number;
  name: string;
  sha256: string;
  sql: string;
}

/** Arbitrary and fixed: "djin" in ASCII. Held by the session, so a killed migrator gives it back. */
const ADVISORY_LOCK = 0x646a696e;

/**
 * Applies what is missing of `dir` and pg-boss's own schema. Waits for another migrator rather than racing it.
 * Throws MigrationError when an applied file has changed or the database is newer, RolesError when rights are missing.
 */
export async function migrate(
  options: DatabaseOptions,
  dir: string,
  log: Logger,
): Promise<{ applied: string[] }> {
  const migrations = await readMigrations(dir);
  const client = new pg.Client(clientConfig(options));
  // The error also rejects the running query; without a listener it would end the process.
  client.on('error', (error) => log.warn({ err: error }, 'the connection of the migration was lost'));
  await client.connect();
  try {
    await client.query('select pg_advisory_lock($1)', [ADVISORY_LOCK]);
    await ensureRoles(client);
    await client.query('set role djinnd_owner');
    await client.query(`create table if not exists public.schema_migrations (
      version integer primary key, name text not null, sha256 text not null,
      applied_at timestamptz not null default now())`);
    await client.query('grant select on public.schema_migrations to djinnd_app, djinnd_operator');
    const applied: string[] = [];
    for (const migration of await pending(client, migrations)) {
      await apply(client, migration);
      applied.push(migration.name);
      log.info({ migration: migration.name }, 'applied a migration');
    }
    await installQueue(client, log);
    return { applied };
  } finally {
    // Ends the session, which releases the lock.
    await client.end();
  }
}

async function readMigrations(dir: string): Promise<Migration[]> {
  const names = (await readdir(dir)).filter((name) => name.endsWith('.sql')).sort();
  const migrations = await Promise.all(
    names.map(async (name) => {
      const match = /^(\d{4})_[a-z0-9_]+\.sql$/.exec(name);
      if (match === null) throw new MigrationError(`${name} is not named like 0001_words.sql`);
      const sql = await readFile(join(dir, name), 'utf8');
      return { version: Number(match[1]), name, sha256: createHash('sha256').update(sql).digest('hex'), sql };
    }),
  );
  migrations.forEach(({ version, name }, index) => {
    if (version !== index + 1) throw new MigrationError(`${name} should have the number ${index + 1}`);
  });
  return migrations;
}

async function pending(client: pg.Client, migrations: Migration[]): Promise<Migration[]> {
  const { rows } = await client.query<{ version: number; name: string; sha256: string }>(
    'select version, name, sha256 from public.schema_migrations order by version',
  );
  for (const row of rows) {
    const file = migrations[row.version - 1];
    if (file === undefined) {
      throw new MigrationError(
        `the database has migration ${row.name}, this djinnd knows ${migrations.length}: run a newer djinnd`,
      );
    }
    if (file.sha256 !== row.sha256) {
      throw new MigrationError(
        `${file.name} was changed after it had been applied (sha256 ${row.sha256.slice(0, 12)}… in the database, ` +
          `${file.sha256.slice(0, 12)}… on disk): restore the file and put the change into a new migration`,
      );
    }
  }
  return migrations.slice(rows.length);
}

async function apply(client: pg.Client, { version, name, sha256, sql }: Migration): Promise<void> {
  await client.query('begin');
  try {
    await client.query(sql);
    await client.query('insert into public.schema_migrations (version, name, sha256) values ($1, $2, $3)', [
      version,
      name,
      sha256,
    ]);
    await client.query('commit');
  } catch (error) {
    // A connection that is gone has rolled back already.
    await client.query('rollback').catch(() => {});
    throw new MigrationError(`${name} failed: ${(error as Error).message}`, { cause: error });
  }
}
