// The tenants table as a contract for SQL: the literal UPDATE, its audit, its bounds, and who may do what.
import assert from 'node:assert/strict';
import { after, before, test } from 'node:test';
import pg from 'pg';
import { readAudit, writeAudit } from '../../../daemon/db/audit.ts';
import type { DatabaseOptions, Pool } from '../../../daemon/db/pool.ts';
import { changeTenant, createTenant, listTenants, readTenant } from '../../../daemon/db/tenants.ts';
import { startPostgres, type TestPostgres } from '../../support/postgres.ts';

let postgres: TestPostgres;
let database: DatabaseOptions;
let app: Pool;
let operator: Pool;

before(async () => {
  postgres = await startPostgres();
  database = await postgres.createDatabase();
  app = postgres.pool(database);
  operator = postgres.pool(database, 2, 'djinnd_operator');
  await operator.query(`insert into engines (name) values ('scripted')`);
  for (const id of ['a', 'b', 'c']) await createTenant(app, id, { wbbEngine: 'scripted' });
});
after(() => postgres?.stop());

test(`UPDATE tenants SET wbb_engine='djinn'; works verbatim as the operator and reports its rows`, async () => {
  const { command, rowCount } = await operator.query(`UPDATE tenants SET wbb_engine='djinn';`);
  assert.equal(command, 'UPDATE');
  assert.equal(rowCount, 3);
  assert.equal((await readTenant(app, 'b'))?.wbbEngine, 'djinn');
});

test('it works verbatim for a login of the operator role too, without SET ROLE', async () => {
  const client = new pg.Client({ ...database, user: 'djinnd_operator' } as pg.ClientConfig);
  await client.connect();
  try {
    const { rowCount } = await client.query(`UPDATE tenants SET wbb_engine='scripted';`);
    assert.equal(rowCount, 3);
    const [entry] = await readAudit(app, 'a', 1);
    assert.equal(entry?.login, 'djinnd_operator');
    assert.equal(entry?.actingRole, 'djinnd_operator');
  } finally {
    await client.end();
  }
});

test('a misspelt engine is refused by the UPDATE itself and changes nothing', async () => {
  await assert.rejects(operator.query(`UPDATE tenants SET wbb_engine='djin';`), { code: '23503' });
  assert.equal((await readTenant(app, 'a'))?.wbbEngine, 'scripted');
});

test('each changed column is in the audit log with old, new, who and when; an unchanged one is not', async () => {
  const [last] = await readAudit(app, 'c', 1);
  await operator.query(
    `update tenants set wbb_engine = 'djinn', pids = 99, cpu_percent = 100 where id = 'c'`,
  );
  const entries = (await readAudit(app, 'c', 10)).filter(({ id }) => id > (last?.id ?? 0));
  const seen = entries.map(({ columnName, oldValue, newValue }) => [columnName, oldValue, newValue]);
  assert.deepEqual(seen.sort(), [
    ['pids', 512, 99],
    ['wbb_engine', 'scripted', 'djinn'],
  ]);
  for (const entry of entries) {
    assert.equal(entry.login, 'admin');
    assert.equal(entry.actingRole, 'djinnd_operator');
    assert.equal(entry.action, 'update');
    assert.ok(Math.abs(entry.at.getTime() - Date.now()) < 60_000);
  }
});

test('a change is audited whoever makes it: daemon, operator, owner, superuser', async () => {
  const owner = postgres.pool(database, 1, 'djinnd_owner');
  const superuser = new pg.Client(database as pg.ClientConfig);
  await superuser.connect();
  try {
    for (const [index, by] of [app, operator, owner, superuser].entries()) {
      await by.query('update tenants set max_queued = $1 where id = $2', [500 + index, 'b']);
    }
  } finally {
    await superuser.end();
  }
  const entries = await readAudit(app, 'b', 4);
  assert.deepEqual(
    entries.map(({ actingRole, newValue }) => [actingRole, newValue]),
    [
      ['admin', 503],
      ['djinnd_owner', 502],
      ['djinnd_operator', 501],
      ['djinnd_app', 500],
    ],
  );
});

test('the audit log can only grow, and its time and author cannot be chosen', async () => {
  for (const pool of [app, operator]) {
    await assert.rejects(pool.query(`update audit_log set login = 'x'`), { code: '42501' });
    await assert.rejects(pool.query('delete from audit_log'), { code: '42501' });
    await assert.rejects(pool.query('truncate audit_log'), { code: '42501' });
    await assert.rejects(
      pool.query(`insert into audit_log (tenant_id, action, login) values ('a', 'x', 'me')`),
      {
        code: '42501',
      },
    );
    await assert.rejects(pool.query('alter table tenants disable trigger tenants_audit'), { code: '42501' });
  }
  await writeAudit(app, { tenantId: 'a', action: 'key.create', newValue: { keyId: 'key_1' } });
  const [entry] = await readAudit(app, 'a', 1);
  assert.deepEqual(
    [entry?.action, entry?.newValue, entry?.login],
    ['key.create', { keyId: 'key_1' }, 'admin'],
  );
});

test('a change is announced with the id of its tenant and nothing else', async () => {
  const client = await app.connect();
  try {
    await client.query('listen djinnd_tenants');
    const heard = new Promise<string | undefined>((resolve) =>
      client.once('notification', (n) => resolve(n.payload)),
    );
    await operator.query(`update tenants set max_running = 7 where id = 'a'`);
    assert.equal(await heard, 'a');
  } finally {
    client.release(true);
  }
});

test('values out of bounds and an allow-list of hosts are refused with the name of the column', async () => {
  const refused = { name: 'Problem', code: 'DJ_BODY_INVALID' };
  await assert.rejects(changeTenant(app, 'a', { wallMs: 24 * 3_600_000 }), {
    ...refused,
    message: 'wall_ms must be from 1000 to 82800000',
  });
  await assert.rejects(changeTenant(app, 'a', { memoryBytes: 1 }), { ...refused, message: /memory_bytes/ });
  await assert.rejects(changeTenant(app, 'a', { pids: 2 ** 40 }), refused);
  await assert.rejects(changeTenant(app, 'a', { wbbEngine: 'nope' }), refused);
  const network = 'api.example.com' as 'none';
  await assert.rejects(changeTenant(app, 'a', { network }), { ...refused, message: /none or host/ });
  await assert.rejects(operator.query(`update tenants set network = 'x' where id = 'a'`), {
    constraint: 'tenants_network_is_none_or_host',
  });
  await assert.rejects(createTenant(app, 'a'), { code: 'DJ_CONFLICT' });
  await assert.rejects(createTenant(app, 'no/slash'), refused);
});

test('a new tenant has the defaults, and an absent field of a change keeps its value', async () => {
  const tenant = await createTenant(app, 'fresh');
  assert.equal(tenant.wbbEngine, 'djinn');
  assert.equal(tenant.memoryBytes, 1024 ** 3);
  assert.equal(tenant.wallMs, 30 * 60_000);
  assert.equal(tenant.monthlyTokens, null);
  const changed = await changeTenant(app, 'fresh', { monthlyTokens: 5, maxRunning: 0 });
  assert.deepEqual({ ...changed, monthlyTokens: null, maxRunning: 4 }, tenant);
  assert.equal(await changeTenant(app, 'nobody', { pids: 9 }), null);
  assert.deepEqual(
    (await listTenants(app, 2, 'a')).map(({ id }) => id),
    ['b', 'c'],
  );
});
