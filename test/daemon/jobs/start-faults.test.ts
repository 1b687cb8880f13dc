// Starts that are refused, unanswered or overtaken by a cancel: one end per job, written by whoever owns it.
import assert from 'node:assert/strict';
import { rmSync } from 'node:fs';
import { after, afterEach, before, test } from 'node:test';
import { setTimeout as sleep } from 'node:timers/promises';
import { cursors, type JobsBench, OPERATOR, startJobs } from '../../support/jobs.ts';
import { startPostgres, type TestPostgres } from '../../support/postgres.ts';
import { StandInSpawner } from '../../support/spawner-stand-in.ts';

let postgres: TestPostgres;
let spawner: StandInSpawner;
let bench: JobsBench;

before(async () => {
  postgres = await startPostgres();
  spawner = new StandInSpawner();
  bench = await startJobs(postgres, spawner, { stateDir: spawner.stateDir });
  await bench.tenant('acme');
});
afterEach(() => {
  spawner.fault = () => undefined;
  spawner.program = (params) => spawner.seal(params);
  spawner.calls.length = 0;
  assert.equal(bench.gateway.isOpen.size, 0, 'no gateway stays open');
});
after(async () => {
  await bench?.stop();
  spawner?.close();
  await postgres?.stop();
});

const oneEnd = async (jobId: string) => {
  const { lines } = await bench.read(jobId);
  assert.equal(lines.filter(({ type }) => type === 'end').length, 1);
  assert.equal(lines.at(-1)?.type, 'end');
  return lines;
};

for (const code of ['enforcement', 'unknown_engine', 'bad_request', 'internal'] as const) {
  test(`a start that is refused as ${code} ends the job as spawn_failed with that cause`, async () => {
    spawner.fault = (method) => (method === 'start' ? code : undefined);
    const job = await bench.ended((await bench.submit([])).jobId);
    assert.equal(job.outcome, 'spawn_failed');
    assert.equal((job.cause as { code: string }).code, code);
    assert.deepEqual(cursors(await oneEnd(job.jobId)), ['0-0', '1-1']);
  });
}

test('a session that is still busy and a spawner that drains are waited for', async () => {
  let refusals = 0;
  spawner.fault = (method) => {
    if (method !== 'start' || refusals >= 6) return undefined;
    return refusals++ % 2 === 0 ? 'session_busy' : 'draining';
  };
  assert.equal((await bench.ended((await bench.submit([])).jobId)).outcome, 'ok');
  assert.equal(refusals, 6);
});

test('a start whose answer was lost but which was accepted is found again and runs once', async () => {
  let lost = false;
  spawner.fault = (method) => {
    if (method !== 'start' || lost) return undefined;
    lost = true;
    return 'lose_after';
  };
  const job = await bench.ended((await bench.submit([])).jobId);
  assert.deepEqual([job.outcome, job.attempt], ['ok', 1]);
  assert.equal(spawner.started.filter(({ jobId }) => jobId === job.jobId).length, 1);
  await oneEnd(job.jobId);
});

test('a start that never arrived is sent again as the same attempt', async () => {
  let lost = 0;
  spawner.fault = (method) => (method === 'start' && lost++ < 2 ? 'lose_before' : undefined);
  const job = await bench.ended((await bench.submit([])).jobId);
  assert.deepEqual([job.outcome, job.attempt], ['ok', 1]);
  await oneEnd(job.jobId);
});

test('a cancel while the start is unanswered: forgotten first, then ended by djinnd', async () => {
  let cancelled: Promise<unknown> | undefined;
  spawner.fault = (method, params) => {
    if (method !== 'start') return undefined;
    cancelled ??= bench.jobs.cancel(OPERATOR, (params as { jobId: string }).jobId);
    return 'lose_before';
  };
  const job = await bench.ended((await bench.submit([])).jobId);
  await cancelled;
  assert.equal(job.outcome, 'cancelled');
  assert.ok(spawner.calls.includes('forget 1'));
  assert.ok(!spawner.started.some(({ jobId }) => jobId === job.jobId));
  assert.deepEqual(cursors(await oneEnd(job.jobId)), ['0-0', '1-1']);
});

test('a cancel while the start is unanswered but accepted: the spawner ends it', async () => {
  let cancelled: Promise<unknown> | undefined;
  spawner.program = () => {};
  spawner.fault = (method, params) => {
    if (method !== 'start' || cancelled !== undefined) return undefined;
    cancelled = bench.jobs.cancel(OPERATOR, (params as { jobId: string }).jobId);
    return 'lose_after';
  };
  const job = await bench.ended((await bench.submit([])).jobId);
  await cancelled;
  assert.equal(job.outcome, 'cancelled');
  assert.deepEqual(cursors(await oneEnd(job.jobId)), ['0-0', '1-1', '1-2']);
});

test('a lost attempt is followed by one more, which is told to be the last', async () => {
  spawner.program = (params) =>
    spawner.seal(
      params,
      params.attempt === 1 ? { type: 'job', state: 'lost', reason: 'spawner_died' } : undefined,
    );
  const job = await bench.ended((await bench.submit([])).jobId);
  assert.deepEqual([job.outcome, job.attempt], ['ok', 2]);
  const lines = await oneEnd(job.jobId);
  assert.deepEqual(cursors(lines), ['0-0', '1-1', '1-2', '2-1', '2-2', '2-3']);
  assert.equal(lines[3]?.state, 'retrying');
  const starts = spawner.started.filter(({ jobId }) => jobId === job.jobId);
  assert.deepEqual(
    starts.map(({ lastAttempt, retryReason }) => [lastAttempt, retryReason]),
    [
      [false, undefined],
      [true, 'lost'],
    ],
  );
});

test('a job that is cancelled between two attempts ends as cancelled and runs no more', async () => {
  spawner.program = (params) => {
    spawner.fault = (method, { attempt }: { attempt?: number }) =>
      method === 'start' && attempt === 2 ? 'draining' : undefined;
    spawner.seal(params, { type: 'job', state: 'lost' });
  };
  const { jobId } = await bench.submit([]);
  await bench.until(jobId, ({ attempt }) => attempt === 2);
  await bench.jobs.cancel(OPERATOR, jobId);
  const job = await bench.ended(jobId);
  assert.deepEqual([job.outcome, job.attempt], ['cancelled', 2]);
  assert.deepEqual(cursors(await oneEnd(jobId)), ['0-0', '1-1', '1-2', '2-1']);
});

test('a spool that vanished under a running job makes its attempt a lost one', async () => {
  spawner.program = () => {};
  const { jobId } = await bench.submit([]);
  await bench.until(jobId, () => spawner.calls.includes('go 1'));
  await bench.jobs.cancel(OPERATOR, jobId);
  assert.equal((await bench.ended(jobId)).outcome, 'cancelled');
  // The same with a new process of djinnd and no spool at all.
  const second = await bench.submit([]);
  await bench.until(second.jobId, () => spawner.calls.filter((call) => call === 'go 1').length === 2);
  await bench.stop();
  rmSync(`${spawner.stateDir}/jobs/${second.jobId}`, { recursive: true });
  spawner.forgetAll();
  spawner.program = (params) => spawner.seal(params);
  bench = await startJobs(postgres, spawner, { stateDir: spawner.stateDir, database: bench.database });
  const job = await bench.ended(second.jobId);
  assert.equal(job.outcome, 'ok');
  await oneEnd(second.jobId);
});

test('jobs wait while the spawner is away and readiness says so', async () => {
  for (let n = 0; n < 500 && !bench.jobs.readiness().ready; n++) await sleep(20);
  spawner.connected = false;
  spawner.tell('down');
  const { jobId } = await bench.submit([]);
  await sleep(100);
  assert.equal((await bench.jobs.get(OPERATOR, jobId)).state, 'queued');
  assert.deepEqual(bench.jobs.readiness(), { ready: false, reasons: ['the spawner cannot be reached'] });
  spawner.connected = true;
  spawner.tell('up');
  assert.equal((await bench.ended(jobId)).outcome, 'ok');
  assert.equal(bench.jobs.readiness().ready, true);
});
