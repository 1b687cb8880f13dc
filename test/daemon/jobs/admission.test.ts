// What is admitted, what is refused and how, and that one key makes one job.
import assert from 'node:assert/strict';
import { after, before, test } from 'node:test';
import { setTimeout as sleep } from 'node:timers/promises';
import { addUsage } from '../../../daemon/db/usage.ts';
import { admitJob } from '../../../daemon/jobs/admission.ts';
import { callerOf, type JobsBench, OPERATOR, startJobs } from '../../support/jobs.ts';
import { startPostgres, type TestPostgres } from '../../support/postgres.ts';
import { StandInSpawner } from '../../support/spawner-stand-in.ts';

let postgres: TestPostgres;
let spawner: StandInSpawner;
let bench: JobsBench;

before(async () => {
  postgres = await startPostgres();
  spawner = new StandInSpawner();
  bench = await startJobs(postgres, spawner, { stateDir: spawner.stateDir });
  // max_running 0: the queue stays as it is.
  for (const id of ['acme', 'other', 'full', 'capped', 'small']) await bench.tenant(id, { maxRunning: 0 });
});
after(async () => {
  await bench?.stop();
  await spawner?.close();
  await postgres?.stop();
});

const admit = (body: object, key?: string, caller = OPERATOR) =>
  bench.jobs.admit(caller, { tenantId: 'acme', prompt: 'hello', ...body }, key);

test('twenty equal requests with one key at once make one job (C112)', async () => {
  const answers = await Promise.all(
    Array.from({ length: 20 }, () => admit({ metadata: { a: 1, b: 2 } }, 'k1')),
  );
  assert.equal(new Set(answers.map(({ job }) => job.jobId)).size, 1);
  assert.equal(answers.filter(({ created }) => created).length, 1);
  const { rows } = await bench.pool.query(`select count(*)::int as n from jobs where idempotency_key = 'k1'`);
  assert.equal(rows[0].n, 1);
  const entries = await bench.pool.query(
    `select count(*)::int as n from pgboss.job where data->>'jobId' = $1`,
    [answers[0]?.job.jobId],
  );
  assert.equal(entries.rows[0].n, 1);
  // The order of keys is not another body.
  assert.equal((await admit({ metadata: { b: 2, a: 1 } }, 'k1')).created, false);
});

test('two daemons on one database admit one job for a key, and no more than the queue holds', async () => {
  await bench.tenant('shared', { maxRunning: 0, maxQueued: 3 });
  // Beside the lanes that one process has of its own.
  const deps = { pool: bench.pool, boss: bench.boss, self: 'other', engines: () => null };
  const body = { tenantId: 'shared', prompt: 'hello' };
  const same = await Promise.all(Array.from({ length: 8 }, () => admitJob(deps, body, 'one')));
  assert.equal(new Set(same.map(({ row }) => row.jobId)).size, 1);
  const more = await Promise.allSettled(Array.from({ length: 8 }, () => admitJob(deps, body, null)));
  assert.equal(more.filter(({ status }) => status === 'fulfilled').length, 2);
});

test('the same key with another body is refused; from another tenant it is a job of its own (C112)', async () => {
  const first = await admit({}, 'k2');
  await assert.rejects(admit({ prompt: 'else' }, 'k2'), { code: 'DJ_IDEMPOTENCY_MISMATCH', status: 422 });
  const other = await admit({ tenantId: 'other' }, 'k2');
  assert.equal(other.created, true);
  assert.notEqual(other.job.jobId, first.job.jobId);
});

test('a limit above the tenant is refused by name, one at the limit is not', async () => {
  await assert.rejects(admit({ limits: { pids: 513 } }), (error: { code: string; extra: object }) => {
    assert.equal(error.code, 'DJ_LIMIT_TOO_HIGH');
    assert.deepEqual(error.extra, { limit: 'pids', asked: 513, atMost: 512 });
    return true;
  });
  for (const limit of ['memoryBytes', 'cpuPercent', 'wallMs', 'outputBytes', 'diskBytes']) {
    await assert.rejects(admit({ limits: { [limit]: 2 ** 50 } }), { code: 'DJ_LIMIT_TOO_HIGH' });
  }
  assert.equal((await admit({ limits: { pids: 512 } })).created, true);
});

test('a full queue is exact under parallel requests and says when to come again', async () => {
  await bench.pool.query(`update tenants set max_queued = 5 where id = 'full'`);
  const results = await Promise.allSettled(
    Array.from({ length: 12 }, () => admit({ tenantId: 'full' }, undefined)),
  );
  assert.equal(results.filter(({ status }) => status === 'fulfilled').length, 5);
  for (const result of results) {
    if (result.status === 'fulfilled') continue;
    assert.equal(result.reason.code, 'DJ_QUEUE_FULL');
    assert.match(result.reason.headers['retry-after'], /^\d+$/);
  }
});

test('an earlier job of a key is given back even when the queue is full by now', async () => {
  await bench.pool.query(`update tenants set max_queued = 10 where id = 'small'`);
  const { job } = await admit({ tenantId: 'small' }, 'again');
  await bench.pool.query(`update tenants set max_queued = 0 where id = 'small'`);
  assert.equal((await admit({ tenantId: 'small' }, 'again')).job.jobId, job.jobId);
  await assert.rejects(admit({ tenantId: 'small' }), { code: 'DJ_QUEUE_FULL' });
});

test('a tenant whose monthly tokens are spent is refused until the month is over', async () => {
  await bench.pool.query(`update tenants set monthly_tokens = 100 where id = 'capped'`);
  await addUsage(bench.pool, 'capped', { inputTokens: 60, outputTokens: 39, totalTokens: 99 });
  assert.equal((await admit({ tenantId: 'capped' })).created, true);
  assert.equal(
    await addUsage(bench.pool, 'capped', { inputTokens: 1, outputTokens: 0, totalTokens: 1 }),
    100,
  );
  await assert.rejects(
    admit({ tenantId: 'capped' }),
    (error: { code: string; headers: Record<string, string> }) => {
      assert.equal(error.code, 'DJ_BUDGET_SPENT');
      const seconds = Number(error.headers['retry-after']);
      assert.ok(seconds > 0 && seconds <= 31 * 86_400);
      return true;
    },
  );
});

test("another tenant's job answers exactly like an unknown one, everywhere", async () => {
  const { job } = await admit({ tenantId: 'other' });
  const stranger = callerOf('acme');
  const signal = AbortSignal.timeout(5000);
  const answers = async (jobId: string) => {
    const asked = [
      bench.jobs.get(stranger, jobId),
      bench.jobs.cancel(stranger, jobId),
      bench.jobs.events(stranger, jobId, { follow: false, signal }),
    ];
    const results = await Promise.allSettled(asked);
    return results
      .map((result) => (result as PromiseRejectedResult).reason)
      .map(({ code, message }) => ({ code, message }));
  };
  assert.deepEqual(await answers(job.jobId), await answers('job_unknown'));
  assert.equal((await answers(job.jobId))[0]?.code, 'DJ_NOT_FOUND');
  assert.equal((await bench.jobs.get(OPERATOR, job.jobId)).state, 'queued');
  await assert.rejects(admit({ tenantId: 'other' }, undefined, stranger), { code: 'DJ_NOT_FOUND' });
  await assert.rejects(admit({ tenantId: 'nobody' }), { code: 'DJ_NOT_FOUND' });
});

test('the list shows only own jobs, newest first, page by page', async () => {
  const ids: string[] = [];
  for (let n = 0; n < 5; n++) ids.unshift((await admit({ tenantId: 'other', metadata: { n } })).job.jobId);
  const seen: string[] = [];
  for (let cursor: string | null | undefined; cursor !== null && seen.length < 5; ) {
    const page: Awaited<ReturnType<typeof bench.jobs.list>> = await bench.jobs.list(callerOf('other'), {
      limit: 2,
      ...(cursor === undefined ? {} : { cursor }),
    });
    for (const view of page.jobs) assert.equal(view.tenantId, 'other');
    seen.push(...page.jobs.map(({ jobId }) => jobId));
    cursor = page.next;
  }
  assert.deepEqual(seen.slice(0, 5), ids);
  const none = await bench.jobs.list(callerOf('other'), { limit: 10, state: 'running' });
  assert.deepEqual(none, { jobs: [], next: null });
  for (const cursor of ['zzz', '', 'job_\0', 'x'.repeat(1000)])
    await assert.rejects(bench.jobs.list(OPERATOR, { limit: 1, cursor }), { code: 'DJ_CURSOR_INVALID' });
  const [foreign] = ids;
  await assert.rejects(bench.jobs.list(callerOf('capped'), { limit: 1, cursor: foreign ?? '' }), {
    code: 'DJ_CURSOR_INVALID',
  });
});

test('an engine that this machine lacks and enforcement that is refused are typed errors at once', async () => {
  await bench.pool.query(`insert into engines (name) values ('gone') on conflict do nothing`);
  await bench.pool.query(`update tenants set wbb_engine = 'gone' where id = 'capped'`);
  await assert.rejects(admit({ tenantId: 'capped' }), { code: 'DJ_ENGINE_UNAVAILABLE' });
  spawner.enforcement.refused = true;
  spawner.enforcement.reason = 'memory is none';
  spawner.reconnect();
  for (let n = 0; n < 200 && !/no job may run/.test(bench.jobs.readiness().reasons.join()); n++)
    await sleep(10);
  assert.deepEqual(bench.jobs.readiness(), { ready: false, reasons: ['no job may run: memory is none'] });
  await assert.rejects(admit({ tenantId: 'other' }), { code: 'DJ_ENFORCEMENT', message: 'memory is none' });
});
