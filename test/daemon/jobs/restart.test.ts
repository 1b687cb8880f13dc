// djinnd, the spawner and Postgres come and go under running jobs; real spawner, plain launcher.
import assert from 'node:assert/strict';
import { after, before, test } from 'node:test';
import { setTimeout as sleep } from 'node:timers/promises';
import { zstdCompressSync } from 'node:zlib';
import { insertSegment, lastStoredSeq } from '../../../daemon/db/segments.ts';
import { readStored } from '../../../daemon/jobs/stored-lines.ts';
import { runSpawner } from '../../../daemon/spawner/index.ts';
import { cursors, type JobsBench, OPERATOR, startJobs, tokens } from '../../support/jobs.ts';
import { startPostgres, type TestPostgres } from '../../support/postgres.ts';
import { type Line, makeDirs, plainOptions, SpawnerBench } from '../../support/spawner.ts';

let postgres: TestPostgres;
let spawner: SpawnerBench;
let bench: JobsBench;
let live: Awaited<ReturnType<typeof runSpawner>>;

before(async () => {
  postgres = await startPostgres();
  const dirs = makeDirs();
  live = await runSpawner(plainOptions(dirs));
  spawner = new SpawnerBench(dirs, null);
  await spawner.connected();
  bench = await startJobs(postgres, spawner.client, { stateDir: dirs.stateDir });
  await bench.tenant('acme', { maxRunning: 16 });
});
after(async () => {
  await bench?.stop();
  await live?.close();
  await spawner?.close();
  await postgres?.stop();
});

const say = (text: string) => ({ emit: { type: 'token', text } });
const counting = (from: number, to: number, pauseMs: number) =>
  Array.from({ length: to - from }, (_, n) => [say(`n${from + n}`), { sleepMs: pauseMs }]).flat();

/** Lines until the stream breaks off or ends. */
async function readSome(jobId: string, signal: AbortSignal): Promise<Line[]> {
  const lines: Line[] = [];
  for await (const chunk of await bench.jobs.events(OPERATOR, jobId, { follow: true, signal })) {
    lines.push(
      ...chunk
        .toString()
        .split('\n')
        .slice(0, -1)
        .map((line) => JSON.parse(line) as Line),
    );
  }
  return lines;
}

test('djinnd goes and comes back: jobs run on, each line once, one end, queued jobs follow (C095)', async () => {
  const jobs = await Promise.all([1, 2, 3].map(() => bench.submit([...counting(0, 40, 60), { done: 0 }])));
  const cut = new AbortController();
  const first = jobs.map(({ jobId }) => readSome(jobId, cut.signal));
  await Promise.all(jobs.map(({ jobId }) => bench.until(jobId, ({ state }) => state === 'running')));
  await sleep(300);
  cut.abort();
  const before = await Promise.all(first);
  await bench.stop();
  await sleep(300);
  bench = await startJobs(postgres, spawner.client, {
    stateDir: spawner.dirs.stateDir,
    database: bench.database,
  });
  for (const [index, { jobId }] of jobs.entries()) {
    const seen = before[index] as Line[];
    assert.ok(seen.length > 3 && seen.at(-1)?.type !== 'end', 'the cut was in the middle');
    const rest = await bench.read(jobId, cursors(seen).at(-1));
    const all = [...seen, ...rest.lines];
    assert.deepEqual(cursors(all), ['0-0', ...all.slice(1).map((_, n) => `1-${n + 1}`)]);
    assert.deepEqual(
      tokens(all),
      Array.from({ length: 40 }, (_, n) => `n${n}`),
    );
    assert.equal((await bench.ended(jobId)).outcome, 'ok');
    assert.equal(bench.gateway.opened.filter((name) => name.startsWith(jobId)).length, 1, 'listened again');
  }
});

test('a job that ends while djinnd is away is closed from its spool, and one that waited then runs', async () => {
  const ends = await bench.submit([say('x'), { sleepMs: 150 }, { done: 0 }], { sessionId: 'away' });
  const waits = await bench.submit([say('y'), { done: 0 }], { sessionId: 'away' });
  await bench.until(ends.jobId, ({ state }) => state === 'running');
  await bench.stop();
  await sleep(600);
  bench = await startJobs(postgres, spawner.client, {
    stateDir: spawner.dirs.stateDir,
    database: bench.database,
  });
  assert.equal((await bench.ended(ends.jobId)).outcome, 'ok');
  assert.equal((await bench.ended(waits.jobId)).outcome, 'ok');
  assert.deepEqual(tokens((await bench.read(ends.jobId)).lines), ['x']);
});

test('djinnd goes between the stored end and the closed row: the next start closes it', async () => {
  const others = postgres.pool(bench.database, 2);
  const [holder, watcher] = [await others.connect(), await others.connect()];
  await watcher.query('set role none'); // only a superuser sees what others wait for
  const { jobId } = await bench.submit([say('x'), { sleepMs: 1000 }, { done: 0 }]);
  await bench.until(jobId, ({ state }) => state === 'running');
  await holder.query('begin');
  await holder.query('select job_id from jobs where job_id = $1 for no key update', [jobId]);
  const { lines } = await bench.read(jobId);
  // The row is held, so its end waits; that wait is cut off together with djinnd.
  const waits = `select pid from pg_stat_activity where datname = current_database() and wait_event_type = 'Lock'`;
  while ((await watcher.query(waits)).rowCount === 0) await sleep(20);
  const stopped = bench.stop().then(() => true);
  while (!(await Promise.race([stopped, sleep(50, false)]))) {
    await watcher.query(`select pg_terminate_backend(pid) from (${waits}) as waiting`);
  }
  await holder.query('rollback');
  for (const client of [holder, watcher]) client.release(true);
  bench = await startJobs(postgres, spawner.client, {
    stateDir: spawner.dirs.stateDir,
    database: bench.database,
  });
  assert.equal((await bench.ended(jobId, 5000)).outcome, 'ok');
  assert.deepEqual(cursors((await bench.read(jobId)).lines), cursors(lines));
});

test('the spawner goes: each job says retrying, runs once more and has one end (C095)', async () => {
  const jobs = await Promise.all(
    [1, 2].map(() => bench.submit([say('begun'), { sleepMs: 700 }, { done: 0 }])),
  );
  const reading = jobs.map(({ jobId }) => bench.read(jobId));
  await Promise.all(jobs.map(({ jobId }) => bench.until(jobId, ({ state }) => state === 'running')));
  await live.close();
  for (let n = 0; n < 100 && bench.jobs.readiness().ready; n++) await sleep(10);
  assert.deepEqual(bench.jobs.readiness().reasons, ['the spawner cannot be reached']);
  live = await runSpawner(plainOptions(spawner.dirs));
  for (const [index, { jobId }] of jobs.entries()) {
    const { lines } = await (reading[index] as Promise<{ lines: Line[] }>);
    const states = lines
      .filter(({ type }) => type === 'job')
      .map(({ attempt, state }) => `${attempt} ${state}`);
    assert.deepEqual(states, [
      '0 queued',
      '1 starting',
      '1 running',
      '1 lost',
      '2 retrying',
      '2 starting',
      '2 running',
    ]);
    assert.equal(lines.filter(({ type }) => type === 'end').length, 1);
    const view = await bench.ended(jobId);
    assert.deepEqual([view.outcome, view.attempt], ['ok', 2]);
    assert.deepEqual((await bench.read(jobId)).lines, lines, 'stored as it was streamed');
  }
});

test('a second spawner is refused before it touches the jobs of the first', async () => {
  const { jobId } = await bench.submit([say('x'), { sleepMs: 500 }, { done: 0 }]);
  await bench.until(jobId, ({ state }) => state === 'running');
  await assert.rejects(runSpawner(plainOptions(spawner.dirs)), /another spawner listens/);
  const { lines } = await bench.read(jobId);
  assert.deepEqual([lines.at(-1)?.outcome, lines.at(-1)?.attempt], ['ok', 1]);
});

test('cancel works while running, is idempotent, and a job of the gateway budget ends as budget', async () => {
  const one = await bench.submit([say('x'), { sleepMs: 20_000 }]);
  const two = await bench.submit([say('x'), { sleepMs: 20_000 }]);
  for (const { jobId } of [one, two]) await bench.until(jobId, ({ state }) => state === 'running');
  await bench.jobs.cancel(OPERATOR, one.jobId);
  await bench.jobs.cancel(OPERATOR, one.jobId);
  await bench.jobs.cancelForBudget(two.jobId);
  await bench.jobs.cancel(OPERATOR, two.jobId);
  const cancelled = await bench.ended(one.jobId);
  assert.equal(cancelled.outcome, 'cancelled');
  assert.deepEqual(await bench.jobs.cancel(OPERATOR, one.jobId), cancelled);
  assert.equal((await bench.ended(two.jobId)).outcome, 'budget');
});

test('Postgres goes under running jobs: streams go on to the end, requests say not ready, nothing is lost (C121)', async () => {
  const jobs = await Promise.all([1, 2, 3].map(() => bench.submit([...counting(0, 30, 50), { done: 0 }])));
  for (const { jobId } of jobs) await bench.until(jobId, ({ state }) => state === 'running');
  const reading = jobs.map(({ jobId }) => bench.read(jobId));
  await sleep(200);
  await postgres.halt();
  await assert.rejects(bench.jobs.get(OPERATOR, jobs[0]?.jobId ?? ''), { code: 'DJ_NOT_READY' });
  await assert.rejects(bench.submit([{ done: 0 }]), { code: 'DJ_NOT_READY' });
  const streamed = await Promise.all(reading);
  for (let n = 0; n < 300 && bench.jobs.readiness().ready; n++) await sleep(20);
  assert.deepEqual(bench.jobs.readiness().reasons, ['the database cannot be reached']);
  await postgres.resume();
  for (const [index, { jobId }] of jobs.entries()) {
    assert.equal((await bench.ended(jobId)).outcome, 'ok');
    assert.equal((await bench.read(jobId)).text, streamed[index]?.text);
    assert.equal(streamed[index]?.lines.at(-1)?.type, 'end');
  }
  for (let n = 0; n < 300 && !bench.jobs.readiness().ready; n++) await sleep(20);
  assert.equal(bench.jobs.readiness().ready, true);
  assert.equal((await bench.ended((await bench.submit([{ done: 0 }])).jobId)).outcome, 'ok');
});

test('every connection is killed again and again: jobs go on', async () => {
  const jobs = await Promise.all(
    Array.from({ length: 5 }, () => bench.submit([...counting(0, 10, 40), { done: 0 }])),
  );
  const superuser = postgres.pool(bench.database, 1, 'djinnd_owner');
  for (let n = 0; n < 5; n++) {
    await superuser
      .query(
        `reset role; select pg_terminate_backend(pid) from pg_stat_activity
         where datname = current_database() and pid <> pg_backend_pid() and backend_type = 'client backend'`,
      )
      .catch(() => {});
    await sleep(100);
  }
  for (const { jobId } of jobs) {
    for (let tries = 0; ; tries++) {
      try {
        assert.equal((await bench.ended(jobId)).outcome, 'ok');
        break;
      } catch (error) {
        if (tries > 5 || (error as { code?: string }).code !== 'DJ_NOT_READY') throw error;
      }
    }
  }
});

test('what a killed writer stores after its successor has begun costs no line, and none comes twice', async () => {
  const job = await bench.submit([say('a'), { done: 0 }]);
  await bench.ended(job.jobId);
  const chunk = async (attempt: number, firstSeq: number, lastSeq: number) => {
    const seqs = Array.from({ length: lastSeq - firstSeq + 1 }, (_, n) => firstSeq + n);
    const text = seqs.map((seq) => `{"seq":${seq},"ts":"t"}\n`).join('');
    const data = zstdCompressSync(Buffer.from(text));
    await insertSegment(bench.pool, {
      jobId: job.jobId,
      attempt,
      firstSeq,
      lastSeq,
      rawBytes: text.length,
      data,
    });
  };
  const stored = async (attempt: number): Promise<number[]> => {
    const seqs: number[] = [];
    for (let after = 0; ; ) {
      const read = await readStored(bench.pool, job.jobId, attempt, after);
      if (read === null) return seqs;
      for (const line of read.lines.toString().trim().split('\n')) seqs.push(JSON.parse(line).seq);
      after = read.lastSeq;
    }
  };
  const whole = Array.from({ length: 12 }, (_, n) => n + 1);
  const ORDERS: [number, number][][] = [
    [
      [1, 5],
      [1, 9],
      [10, 12],
    ],
    [
      [1, 9],
      [1, 5],
      [10, 12],
    ],
    [
      [1, 9],
      [1, 7],
      [8, 12],
    ],
    [
      [1, 7],
      [8, 12],
      [1, 9],
    ],
  ];
  for (const [index, order] of ORDERS.entries()) {
    for (const [first, last] of order) await chunk(index + 10, first, last);
    assert.deepEqual(await stored(index + 10), whole, JSON.stringify(order));
    assert.equal(await lastStoredSeq(bench.pool, job.jobId, index + 10), 12);
  }
});
