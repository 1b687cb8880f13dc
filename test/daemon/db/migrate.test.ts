// Migrations: raced, killed, changed, too new, and without the rights they need.
import assert from 'node:assert/strict';
import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { cp, mkdtemp, readdir, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { after, before, test } from 'node:test';
import { setTimeout as sleep } from 'node:timers/promises';
import { fileURLToPath } from 'node:url';
import pg from 'pg';
import { MigrationError, migrate } from '../../../daemon/db/migrate.ts';
import type { DatabaseOptions } from '../../../daemon/db/pool.ts';
import { RolesError } from '../../../daemon/db/roles.ts';
import { MIGRATIONS, silentLog, startPostgres, type TestPostgres } from '../../support/postgres.ts';

const CHILD = fileURLToPath(new URL('../../support/migrate-child.ts', import.meta.url));
let postgres: TestPostgres;
let files: string[];

before(async () => {
  postgres = await startPostgres();
  files = (await readdir(MIGRATIONS)).filter((name) => name.endsWith('.sql')).sort();
});
after(() => postgres?.stop());

test('five migrators at once: all succeed and each migration is applied once (C131)', async () => {
  for (let round = 0; round < 4; round++) {
    const database = await postgres.createDatabase({ empty: true });
    const results = await Promise.all([1, 2, 3, 4, 5].map(() => migrate(database, MIGRATIONS, silentLog)));
    assert.deepEqual(
      results.map(({ applied }) => applied).filter(({ length }) => length > 0),
      [files],
    );
    await assertComplete(database);
  }
});

test('five migrators in processes of their own, two databases of one server', async () => {
  const databases = [
    await postgres.createDatabase({ empty: true }),
    await postgres.createDatabase({ empty: true }),
  ];
  const codes = await Promise.all(
    [0, 1, 0, 1, 0].map(async (which) => {
      const child = migrateInChild(databases[which] as DatabaseOptions);
      const [code] = await once(child, 'exit');
      return code as number;
    }),
  );
  assert.deepEqual(codes, [0, 0, 0, 0, 0]);
  for (const database of databases) await assertComplete(database);
});

test('a migrator killed at any moment leaves nothing half done: the next one completes (C131)', async () => {
  for (const delayMs of [5, 15, 25, 40, 60, 90, 140]) {
    const database = await postgres.createDatabase({ empty: true });
    const child = migrateInChild(database);
    await once(child.stdout, 'data');
    await sleep(delayMs);
    child.kill('SIGKILL');
    await once(child, 'exit');
    await migrate(database, MIGRATIONS, silentLog);
    await assertComplete(database);
  }
});

test('migrating again changes nothing', async () => {
  const database = await postgres.createDatabase();
  assert.deepEqual(await migrate(database, MIGRATIONS, silentLog), { applied: [] });
});

test('a file that was changed after it was applied is refused by name', async (t) => {
  const dir = await copyOfMigrations(t);
  const database = await postgres.createDatabase();
  await writeFile(join(dir, files[0] as string), '-- something else\n');
  await assert.rejects(migrate(database, dir, silentLog), (error: Error) => {
    assert.ok(error instanceof MigrationError);
    assert.match(error.message, /0001_tenants\.sql was changed after it had been applied/);
    return true;
  });
});

test('a database that is newer than this program is refused', async (t) => {
  const dir = await copyOfMigrations(t);
  const database = await postgres.createDatabase();
  await rm(join(dir, files.at(-1) as string));
  await assert.rejects(migrate(database, dir, silentLog), /run a newer djinnd/);
});

test('a migration that fails leaves nothing of itself, and is applied once it is mended', async (t) => {
  const dir = await copyOfMigrations(t);
  const database = await postgres.createDatabase();
  const name = `${String(files.length + 1).padStart(4, '0')}_more.sql`;
  await writeFile(join(dir, name), 'create table half (a int); select 1/0;');
  await assert.rejects(migrate(database, dir, silentLog), new RegExp(`${name} failed: division by zero`));
  await writeFile(join(dir, name), 'create table half (a int);');
  assert.deepEqual(await migrate(database, dir, silentLog), { applied: [name] });
});

test('a login that may not prepare the database is told the statements, and they suffice', async () => {
  const database = await postgres.createDatabase({ empty: true });
  const admin = new pg.Client(database as pg.ClientConfig);
  await admin.connect();
  try {
    await admin.query('create role plain login');
    const asPlain = { ...database, user: 'plain' };
    const refused = await migrate(asPlain, MIGRATIONS, silentLog).then(
      () => null,
      (error: Error) => error,
    );
    assert.ok(refused instanceof RolesError, String(refused));
    const statements = refused.message
      .split('\n')
      .slice(1)
      .map((line) => line.trim());
    assert.ok(
      statements.includes('grant djinnd_owner, djinnd_app, djinnd_operator to "plain";'),
      refused.message,
    );
    // The roles are there already, made for the template.
    for (const statement of statements)
      if (!statement.startsWith('create role')) await admin.query(statement);
    await migrate(asPlain, MIGRATIONS, silentLog);
    await assertComplete(asPlain);
  } finally {
    await admin.end();
  }
});

test('everything belongs to djinnd_owner, and the daemon may not change the schema', async () => {
  const database = await postgres.createDatabase();
  const pool = postgres.pool(database);
  const { rows } = await pool.query(
    `select schemaname, tablename from pg_tables
     where schemaname in ('public', 'pgboss') and tableowner <> 'djinnd_owner'`,
  );
  assert.deepEqual(rows, []);
  for (const statement of [
    'create table x (a int)',
    'alter table jobs add column x int',
    'drop table jobs',
  ]) {
    await assert.rejects(pool.query(statement), { code: '42501' });
  }
});

async function assertComplete(database: DatabaseOptions): Promise<void> {
  const client = new pg.Client(database as pg.ClientConfig);
  await client.connect();
  try {
    const { rows } = await client.query('select version, name from schema_migrations order by version');
    assert.deepEqual(
      rows,
      files.map((name, index) => ({ version: index + 1, name })),
    );
    const queue = await client.query('select name, policy, retry_limit from pgboss.queue');
    assert.deepEqual(queue.rows, [{ name: 'jobs', policy: 'key_strict_fifo', retry_limit: 0 }]);
  } finally {
    await client.end();
  }
}

function migrateInChild({ host = '', user = '', database = '' }: DatabaseOptions) {
  return spawn(process.execPath, [CHILD, host, user, database, MIGRATIONS], {
    stdio: ['ignore', 'pipe', 'inherit'],
  });
}

async function copyOfMigrations(t: { after(fn: () => Promise<void>): void }): Promise<string> {
  const dir = await mkdtemp(join(tmpdir(), 'djinnd-migrations-'));
  t.after(() => rm(dir, { recursive: true, force: true }));
  await cp(MIGRATIONS, dir, { recursive: true });
  return dir;
}
