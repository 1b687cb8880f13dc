// Who runs when: per-session order, per-tenant and per-machine room, nobody behind another's queue, the engine of the claim.
import assert from 'node:assert/strict';
import { after, afterEach, before, test } from 'node:test';
import { setTimeout as sleep } from 'node:timers/promises';
import type { StartParams } from '../../../daemon/spawner/wire.ts';
import { type JobsBench, OPERATOR, startJobs } from '../../support/jobs.ts';
import { startPostgres, type TestPostgres } from '../../support/postgres.ts';
import { StandInSpawner } from '../../support/spawner-stand-in.ts';

const MAX_RUNNING = 6;
let postgres: TestPostgres;
let spawner: StandInSpawner;
let bench: JobsBench;
/** Attempts that are at `go` now, by tenant. */
const running = new Map<string, number>();
const most = new Map<string, number>();

before(async () => {
  postgres = await startPostgres();
  spawner = new StandInSpawner();
  bench = await startJobs(postgres, spawner, { stateDir: spawner.stateDir, maxRunning: MAX_RUNNING });
  for (const id of ['a', 'b', 'c', 'd', 'e']) await bench.tenant(id, { maxRunning: 3, maxQueued: 100_000 });
  await bench.pool.query(`insert into engines (name) values ('other') on conflict do nothing`);
});
afterEach(() => {
  running.clear();
  most.clear();
});
after(async () => {
  await bench?.stop();
  spawner?.close();
  await postgres?.stop();
});

/** Runs for a while and counts. */
const lasting = (ms: number) => async (params: StartParams) => {
  for (const who of [params.tenantId, 'all']) {
    running.set(who, (running.get(who) ?? 0) + 1);
    most.set(who, Math.max(most.get(who) ?? 0, running.get(who) ?? 0));
  }
  await sleep(ms);
  for (const who of [params.tenantId, 'all']) running.set(who, (running.get(who) ?? 0) - 1);
  spawner.seal(params);
};

test('a tenant runs at most max_running, a machine at most its own number, and both are used', async () => {
  spawner.program = lasting(400);
  const jobs = [];
  for (let n = 0; n < 4; n++) {
    for (const tenantId of ['a', 'b', 'c']) jobs.push(await bench.submit([], { tenantId }));
  }
  await Promise.all(jobs.map(({ jobId }) => bench.ended(jobId)));
  assert.equal(most.get('all'), MAX_RUNNING);
  for (const tenantId of ['a', 'b', 'c'])
    assert.ok((most.get(tenantId) ?? 0) <= 3, `${tenantId} ${most.get(tenantId)}`);
});

test('one session never runs two jobs at once, whatever else waits, and keeps its order', async () => {
  const order: string[] = [];
  let inSession = 0;
  spawner.program = async (params) => {
    if (params.sessionId === 'one') {
      assert.equal(++inSession, 1);
      order.push(params.jobId);
    }
    await sleep(20);
    if (params.sessionId === 'one') inSession--;
    spawner.seal(params);
  };
  const one = [];
  const others = [];
  for (let n = 0; n < 6; n++) {
    one.push((await bench.submit([], { tenantId: 'd', sessionId: 'one' })).jobId);
    others.push((await bench.submit([], { tenantId: 'd' })).jobId);
  }
  await Promise.all([...one, ...others].map((jobId) => bench.ended(jobId)));
  assert.deepEqual(order, one);
});

test('a tenant that fills the machine again and again does not keep another waiting', async () => {
  spawner.program = lasting(30);
  const many = await Promise.all(Array.from({ length: 60 }, () => bench.submit([], { tenantId: 'a' })));
  await bench.pool.query(`update tenants set max_running = 100 where id = 'a'`);
  const single = await bench.submit([], { tenantId: 'b' });
  assert.equal((await bench.ended(single.jobId)).outcome, 'ok');
  const { rows } = await bench.pool.query(
    `select count(*)::int as overtook from jobs a, jobs b where a.tenant_id = 'a' and b.job_id = $1
       and a.claimed_at > b.created_at and a.claimed_at < b.claimed_at`,
    [single.jobId],
  );
  // The next free place is b's, once its admission has committed; by age alone it would have been the last of 61.
  assert.ok(rows[0].overtook <= 2 * MAX_RUNNING, `${rows[0].overtook} jobs of the other tenant came first`);
  await Promise.all(many.map(({ jobId }) => bench.ended(jobId)));
});

test('room that an operator gives is used at once', async () => {
  spawner.program = lasting(1);
  await bench.pool.query(`update tenants set max_running = 0 where id = 'e'`);
  const { jobId } = await bench.submit([], { tenantId: 'e' });
  await sleep(100);
  assert.equal((await bench.jobs.get(OPERATOR, jobId)).state, 'queued');
  const begun = Date.now();
  await bench.pool.query(`update tenants set max_running = 1 where id = 'e'`);
  await bench.ended(jobId);
  assert.ok(Date.now() - begun < 1500, 'woken by the notification, not by the slow timer alone');
});

test('cancelled queued jobs leave the queue, end at once and do not run', async () => {
  await bench.pool.query(`update tenants set max_running = 0 where id = 'e'`);
  spawner.program = lasting(1);
  const jobs = await Promise.all(
    [1, 2, 3].map(() => bench.submit([], { tenantId: 'e', sessionId: 'queue' })),
  );
  for (const index of [0, 1]) {
    const view = await bench.jobs.cancel(OPERATOR, jobs[index]?.jobId ?? '');
    assert.deepEqual([view.state, view.outcome, view.attempt], ['ended', 'cancelled', 0]);
    assert.deepEqual(await bench.jobs.cancel(OPERATOR, view.jobId), view);
    const { lines } = await bench.read(view.jobId);
    assert.deepEqual(
      lines.map(({ type }) => type),
      ['job', 'end'],
    );
  }
  await bench.pool.query(`update tenants set max_running = 1 where id = 'e'`);
  assert.equal((await bench.ended(jobs[2]?.jobId ?? '')).outcome, 'ok');
  const { rows } = await bench.pool.query(
    `select state::text from pgboss.job where group_id = 'e' and state <> 'completed'`,
  );
  assert.deepEqual(rows, []);
  assert.ok(!spawner.started.some(({ jobId }) => jobId === jobs[0]?.jobId));
});

test('cancels that race with claims: each job has one end and nothing is stuck', async () => {
  spawner.program = lasting(5);
  const jobs = await Promise.all(Array.from({ length: 40 }, () => bench.submit([], { tenantId: 'c' })));
  await Promise.all(jobs.map(({ jobId }) => bench.jobs.cancel(OPERATOR, jobId)));
  const views = await Promise.all(jobs.map(({ jobId }) => bench.ended(jobId)));
  for (const view of views) {
    assert.ok(view.outcome === 'cancelled' || view.outcome === 'ok');
    const { lines } = await bench.read(view.jobId);
    assert.equal(lines.filter(({ type }) => type === 'end').length, 1);
  }
});

test('the engine is the one of the claim, is stamped on the job, and a running job keeps its own (C125)', async () => {
  const held: StartParams[] = [];
  spawner.program = (params) => void held.push(params);
  const long = await bench.submit([], { tenantId: 'b' });
  await bench.until(long.jobId, () => held.length === 1);
  spawner.program = lasting(1);
  const operator = postgres.pool(bench.database, 1, 'djinnd_operator');
  const flips = new AbortController();
  const flipping = (async () => {
    for (let n = 0; !flips.signal.aborted; n++) {
      await operator.query('update tenants set wbb_engine = $1 where id = $2', [
        n % 2 ? 'puppet' : 'other',
        'b',
      ]);
      await sleep(20);
    }
  })();
  const jobs = [];
  for (let n = 0; n < 50; n++) {
    // Admission looks at the engines of this machine, which has no `other`: so the jobs go in beside it.
    jobs.push(await submitUnchecked('b'));
    await sleep(4);
  }
  const views = await Promise.all(jobs.map((jobId) => bench.ended(jobId)));
  flips.abort();
  await flipping;
  const engines = new Set(views.map(({ engine }) => engine));
  assert.deepEqual([...engines].sort(), ['other', 'puppet']);
  for (const view of views) {
    const start = spawner.started.find(({ jobId }) => jobId === view.jobId);
    assert.equal(start?.engine, view.engine, 'the job ran on the engine that its row names');
    const { rows } = await bench.pool.query(
      `select count(*)::int as n from jobs j where j.job_id = $1 and (
         exists (select from audit_log a where a.tenant_id = 'b' and a.column_name = 'wbb_engine'
           and a.new_value #>> '{}' = j.engine and a.at <= j.claimed_at)
         or j.engine = 'puppet')`,
      [view.jobId],
    );
    assert.equal(rows[0].n, 1, 'a value that the column held');
  }
  spawner.seal(held[0] as StartParams);
  assert.equal((await bench.ended(long.jobId)).engine, 'puppet');
});

async function submitUnchecked(tenantId: string): Promise<string> {
  for (;;) {
    try {
      return (await bench.submit([], { tenantId })).jobId;
    } catch (error) {
      if ((error as { code?: string }).code !== 'DJ_ENGINE_UNAVAILABLE') throw error;
      await sleep(5);
    }
  }
}

test('columns that come and go on every table disturb no job (C124)', async () => {
  spawner.program = lasting(10);
  const superuser = postgres.pool(bench.database, 1, 'djinnd_owner');
  const tables = ['tenants', 'jobs', 'sessions', 'session_records', 'event_segments', 'engines', 'api_keys'];
  const stop = new AbortController();
  const altering = (async () => {
    while (!stop.signal.aborted) {
      for (const table of tables) await superuser.query(`alter table ${table} add column extra int`);
      await sleep(30);
      for (const table of tables) await superuser.query(`alter table ${table} drop column extra`);
      await sleep(30);
    }
  })();
  const jobs = [];
  for (let n = 0; n < 25; n++) {
    const job = await bench.submit([], { tenantId: 'd' });
    jobs.push(job.jobId);
    await bench.jobs.get(OPERATOR, job.jobId);
    await bench.jobs.list(OPERATOR, { limit: 5 });
    await sleep(30);
  }
  const views = await Promise.all(jobs.map((jobId) => bench.ended(jobId)));
  stop.abort();
  await altering;
  assert.ok(views.every(({ outcome }) => outcome === 'ok'));
});
