// HTTP over the real jobs, keys and tenants on a real Postgres: what only the whole shows.
import assert from 'node:assert/strict';
import { after, before, test } from 'node:test';
import { setTimeout as sleep } from 'node:timers/promises';
import { pino } from 'pino';
import { createKey } from '../../../daemon/db/api-keys.ts';
import { readAudit } from '../../../daemon/db/audit.ts';
import { createKeys, createTenants } from '../../../daemon/http/directory.ts';
import { buildHttp, type HttpServer } from '../../../daemon/http/server.ts';
import { createMetrics } from '../../../daemon/metrics.ts';
import type { StartParams } from '../../../daemon/spawner/wire.ts';
import { call, openStream } from '../../support/http-server.ts';
import { type JobsBench, startJobs } from '../../support/jobs.ts';
import { startPostgres, type TestPostgres } from '../../support/postgres.ts';
import { StandInSpawner } from '../../support/spawner-stand-in.ts';

const POOL_SIZE = 5;
let postgres: TestPostgres;
let spawner: StandInSpawner;
let bench: JobsBench;
let server: HttpServer;
let at: { url: string; port: number };
let operator: string;
let a: string;
let b: string;

before(async () => {
  postgres = await startPostgres();
  spawner = new StandInSpawner();
  bench = await startJobs(postgres, spawner, { stateDir: spawner.stateDir, max: POOL_SIZE, maxRunning: 64 });
  const { pool, jobs } = bench;
  await bench.tenant('TA', { maxRunning: 64 });
  await bench.tenant('TB', { maxRunning: 64 });
  operator = (await createKey(pool, { role: 'operator', tenantIds: [] })).secret;
  a = (await createKey(pool, { role: 'caller', tenantIds: ['TA'] })).secret;
  b = (await createKey(pool, { role: 'caller', tenantIds: ['TB'] })).secret;
  server = await buildHttp({
    ...{ jobs, metrics: createMetrics(), log: pino({ level: 'silent' }), version: '0' },
    enforcement: () => spawner.enforcement,
    keys: createKeys(pool),
    tenants: createTenants(pool),
  });
  const url = await server.listen({ host: '127.0.0.1', port: 0 });
  at = { url, port: Number(new URL(url).port) };
});
after(async () => {
  await server?.stop(0);
  await bench?.stop();
  spawner?.close();
  await postgres?.stop();
});

const post = (key: string, body: object, headers = {}) =>
  call(at, 'POST', '/v1/jobs', { key, body, headers: { prefer: 'respond-async', ...headers } });

async function untilReady(status: number): Promise<void> {
  for (let tries = 0; tries < 250; tries += 1) {
    if ((await call(at, 'GET', '/readyz')).status === status) return;
    await sleep(40);
  }
  assert.fail(`/readyz never answered ${status}`);
}

test('a job is streamed to its end and read again the same', async () => {
  spawner.program = (params) => {
    spawner.write(params, { type: 'token', text: 'hello' });
    spawner.seal(params);
  };
  const stream = await openStream(at, 'POST', '/v1/jobs', {
    key: a,
    body: { prompt: 'hi', metadata: { x: 'a\u0000b' } },
  });
  assert.equal(await stream.over, true);
  const types = stream.lines.map((line) => JSON.parse(line).type);
  assert.equal(types[0], 'job');
  assert.equal(types.at(-1), 'end');
  const path = String(stream.response.headers.location);

  const again = await call(at, 'GET', `${path}/events?follow=true`, { key: a });
  assert.equal(again.text, `${stream.lines.join('\n')}\n`);
  for (const line of stream.lines) {
    const { attempt, seq } = JSON.parse(line);
    const rest = await call(at, 'GET', `${path}/events?after=${attempt}-${seq}&follow=true`, { key: a });
    assert.equal(rest.text, again.text.slice(again.text.indexOf(line) + line.length + 1));
  }
  for (const after of ['1-9999', '7-1', '0-1', 'x']) {
    const bad = await call(at, 'GET', `${path}/events?after=${after}`, { key: a });
    assert.equal(bad.json.code, 'DJ_CURSOR_INVALID', after);
  }
  const job = await call(at, 'GET', path, { key: a });
  assert.equal(job.json.state, 'ended');
  assert.deepEqual(job.json.metadata, { x: 'a\u0000b' });
  const foreign = await call(at, 'GET', path, { key: b });
  const unknown = await call(at, 'GET', '/v1/jobs/job_unknown', { key: b });
  assert.deepEqual({ ...foreign.json, requestId: '' }, { ...unknown.json, requestId: '' });
});

test('twenty equal requests with one Idempotency-Key are one job; another body is 422; another tenant has its own (C112)', async () => {
  const headers = { 'idempotency-key': 'once' };
  const before = (await call(at, 'GET', '/v1/jobs?limit=200', { key: a })).json.jobs as unknown[];
  const answers = await Promise.all(Array.from({ length: 20 }, () => post(a, { prompt: 'same' }, headers)));
  assert.deepEqual([...new Set(answers.map(({ status }) => status))], [202]);
  assert.equal(new Set(answers.map(({ json }) => json.jobId)).size, 1);
  const after = (await call(at, 'GET', '/v1/jobs?limit=200', { key: a })).json.jobs as unknown[];
  assert.equal(after.length, before.length + 1);
  const other = await post(a, { prompt: 'other' }, headers);
  assert.deepEqual([other.status, other.json.code], [422, 'DJ_IDEMPOTENCY_MISMATCH']);
  const foreign = await post(b, { prompt: 'same' }, headers);
  assert.equal(foreign.status, 202);
  assert.notEqual(foreign.json.jobId, answers[0]?.json.jobId);
});

test('open streams hold no connection of the pool (C110)', async () => {
  const open: StartParams[] = [];
  spawner.program = (params) => {
    if (params.payload.prompt === 'wait') open.push(params);
    else spawner.seal(params);
  };
  const streams = await Promise.all(
    Array.from({ length: 20 }, () =>
      openStream(at, 'POST', '/v1/jobs', { key: a, body: { prompt: 'wait' } }),
    ),
  );
  for (let tries = 0; open.length < 20 && tries < 250; tries += 1) await sleep(20);
  assert.equal(open.length, 20);
  await sleep(300);
  let slowest = 0;
  for (let n = 0; n < 20; n += 1) {
    const startedAt = performance.now();
    const answer = await call(at, 'GET', '/v1/jobs?limit=5', { key: b });
    slowest = Math.max(slowest, performance.now() - startedAt);
    assert.equal(answer.status, 200);
  }
  assert.ok(slowest < 500, `a GET took ${slowest} ms`);
  const { rows } = await bench.pool.query<{ state: string }>(
    `select state from pg_stat_activity where datname = current_database() and pid <> pg_backend_pid()
     and backend_type = 'client backend'`,
  );
  assert.deepEqual(
    rows.filter(({ state }) => state.startsWith('idle in transaction')),
    [],
  );
  for (const params of open) spawner.seal(params);
  for (const stream of streams) assert.equal(await stream.over, true);
});

test('tenants and keys over HTTP reach their tables, their bounds and the audit log', async () => {
  const made = await call(at, 'POST', '/v1/tenants', {
    key: operator,
    body: { tenantId: 'new', wbbEngine: 'puppet' },
  });
  assert.equal(made.status, 201);
  const read = await call(at, 'GET', '/v1/tenants/new', { key: operator });
  assert.deepEqual(read.json, made.json);
  const twice = await call(at, 'POST', '/v1/tenants', { key: operator, body: { tenantId: 'new' } });
  assert.equal(twice.json.code, 'DJ_CONFLICT');
  for (const body of [
    { wbbEngine: 'no-such' },
    { pids: 1 },
    { memoryBytes: 1 },
    { wallMs: 82_800_001 },
    { totalPids: 3 },
  ]) {
    const refused = await call(at, 'PATCH', '/v1/tenants/new', { key: operator, body });
    assert.deepEqual([refused.status, refused.json.code], [400, 'DJ_BODY_INVALID'], JSON.stringify(body));
  }
  const changed = await call(at, 'PATCH', '/v1/tenants/new', {
    key: operator,
    body: { monthlyTokens: 9, totalPids: null },
  });
  assert.deepEqual([changed.json.monthlyTokens, changed.json.totalPids], [9, null]);
  const missing = await call(at, 'PATCH', '/v1/tenants/none', { key: operator, body: { pids: 100 } });
  assert.equal(missing.status, 404);

  const key = await call(at, 'POST', '/v1/tenants/new/keys', {
    key: operator,
    body: { role: 'caller', name: 'ci' },
  });
  assert.equal(key.status, 201);
  const secret = String(key.json.secret);
  assert.equal((await call(at, 'GET', '/v1/jobs', { key: secret })).status, 200);
  assert.equal(
    (await call(at, 'DELETE', `/v1/tenants/TA/keys/${key.json.keyId}`, { key: operator })).status,
    404,
  );
  assert.equal(
    (await call(at, 'DELETE', `/v1/tenants/new/keys/${key.json.keyId}`, { key: operator })).status,
    204,
  );
  assert.equal((await call(at, 'GET', '/v1/jobs', { key: secret })).status, 401);
  const listed = await call(at, 'GET', '/v1/tenants/new/keys', { key: operator });
  const [entry] = listed.json.keys as { revokedAt: string | null }[];
  assert.notEqual(entry?.revokedAt, null);
  const audit = await readAudit(bench.pool, 'new', 100);
  const actions = audit.map(({ action }) => action);
  for (const action of ['tenant.create', 'tenant.change', 'key.create', 'key.revoke'])
    assert.ok(actions.includes(action), action);
  assert.ok(!JSON.stringify(audit).includes(secret));
  const pages: string[] = [];
  for (let cursor = ''; ; ) {
    const page = await call(at, 'GET', `/v1/tenants?limit=1${cursor}`, { key: operator });
    pages.push(...(page.json.tenants as { tenantId: string }[]).map(({ tenantId }) => tenantId));
    if (page.json.next === null) break;
    cursor = `&cursor=${page.json.next}`;
  }
  assert.deepEqual(pages, ['TA', 'TB', 'new']);
});

test('while the database is away requests are 503, and it needs no restart when it is back', async () => {
  await postgres.halt();
  const away = await call(at, 'GET', '/v1/jobs', { key: a });
  assert.deepEqual([away.status, away.json.code], [503, 'DJ_NOT_READY'], away.text);
  assert.ok(Number(away.headers['retry-after']) > 0);
  assert.equal((await call(at, 'GET', '/healthz')).status, 200);
  await untilReady(503);
  await postgres.resume();
  await untilReady(200);
  assert.equal((await call(at, 'GET', '/v1/jobs', { key: a })).status, 200);
});
