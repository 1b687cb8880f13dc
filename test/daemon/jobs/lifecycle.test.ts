// A job from admission to its stored end, with the real spawner (no sandbox) and a real Postgres.
import assert from 'node:assert/strict';
import { existsSync } from 'node:fs';
import { join } from 'node:path';
import { after, before, test } from 'node:test';
import { setTimeout as sleep } from 'node:timers/promises';
import { cursors, type JobsBench, OPERATOR, startJobs, tokens } from '../../support/jobs.ts';
import { startPostgres, type TestPostgres } from '../../support/postgres.ts';
import { type SpawnerBench, startBench } from '../../support/spawner.ts';

let postgres: TestPostgres;
let spawner: SpawnerBench;
let bench: JobsBench;

before(async () => {
  [postgres, spawner] = await Promise.all([startPostgres(), startBench()]);
  bench = await startJobs(postgres, spawner.client, { stateDir: spawner.dirs.stateDir });
  await bench.tenant('acme');
});
after(async () => {
  await bench?.stop();
  await spawner?.close();
  await postgres?.stop();
});

const say = (text: string) => ({ emit: { type: 'token', text } });

test('a job runs, streams every line once and ends stored, with the same bytes live and afterwards', async () => {
  const job = await bench.submit([say('one'), say('two'), { done: 0 }]);
  assert.equal(job.state, 'queued');
  assert.equal(job.attempt, 0);
  const live = await bench.read(job.jobId);
  assert.deepEqual(tokens(live.lines), ['one', 'two']);
  assert.equal(live.lines[0]?.state, 'queued');
  assert.equal(live.lines[0]?.sessionId, job.sessionId);
  const end = live.lines.at(-1);
  assert.equal(end?.type, 'end');
  assert.equal(end?.outcome, 'ok');
  assert.deepEqual(cursors(live.lines), ['0-0', ...live.lines.slice(1).map((_, index) => `1-${index + 1}`)]);

  const ended = await bench.ended(job.jobId);
  assert.equal(ended.outcome, 'ok');
  assert.equal(ended.engine, 'puppet');
  assert.equal(ended.attempt, 1);
  assert.deepEqual(ended.exit, { code: 0, signal: null });
  assert.ok(ended.startedAt !== undefined && ended.endedAt !== undefined);
  await gone(join(spawner.dirs.stateDir, 'jobs', job.jobId));
  assert.equal((await bench.read(job.jobId)).text, live.text);
  assert.equal(bench.gateway.isOpen.size, 0);
  const { rows } = await bench.pool.query(`select state from pgboss.job where data->>'jobId' = $1`, [
    job.jobId,
  ]);
  assert.deepEqual(rows, [{ state: 'completed' }]);
});

test('jobs of one session run one after the other, in order', async () => {
  const sessionId = 'ses_order';
  const jobs = [];
  for (const text of ['a', 'b', 'c']) {
    jobs.push(await bench.submit([say(text), { sleepMs: 50 }, { done: 0 }], { sessionId }));
  }
  const views = await Promise.all(jobs.map(({ jobId }) => bench.ended(jobId)));
  for (const [index, view] of views.entries()) {
    assert.equal(view.outcome, 'ok');
    const before = views[index - 1];
    if (before !== undefined)
      assert.ok((view.startedAt ?? '') >= (before.endedAt ?? ''), 'started before the end');
  }
});

test('a program that fails is a failed job with its exit code', async () => {
  const failed = await bench.ended((await bench.submit([{ exit: 7 }])).jobId);
  assert.equal(failed.outcome, 'failed');
  assert.deepEqual(failed.exit, { code: 7, signal: null });
});

test('an engine that is gone at the claim ends the job as spawn_failed, in the row and in the stream', async () => {
  await bench.pool.query(`insert into engines (name) values ('elsewhere') on conflict do nothing`);
  await bench.tenant('moved', { maxRunning: 0 });
  const job = await bench.submit([{ done: 0 }], { tenantId: 'moved' });
  await bench.pool.query(`update tenants set wbb_engine = 'elsewhere', max_running = 1 where id = 'moved'`);
  const ended = await bench.ended(job.jobId);
  assert.equal(ended.outcome, 'spawn_failed');
  assert.equal((ended.cause as { code: string }).code, 'unknown_engine');
  const { lines, text } = await bench.read(job.jobId);
  assert.deepEqual(cursors(lines), ['0-0', '1-1']);
  assert.equal(lines[1]?.outcome, 'spawn_failed');
  assert.equal(lines[1]?.engine, 'elsewhere');
  assert.equal((await bench.read(job.jobId, '0-0')).text, text.split('\n').slice(1).join('\n'));
  assert.equal((await bench.read(job.jobId, '1-1')).text, '');
});

test('what the job asks for is cut to what the tenant has at the claim', async () => {
  await bench.tenant('cut', { maxRunning: 0, pids: 100, network: 'none' });
  const job = await bench.submit([{ done: 0 }], { tenantId: 'cut', limits: { pids: 90, wallMs: 5000 } });
  await bench.pool.query(`update tenants set pids = 50, max_running = 1, total_pids = 60 where id = 'cut'`);
  await bench.ended(job.jobId);
  const { rows } = await bench.pool.query('select granted from jobs where job_id = $1', [job.jobId]);
  assert.equal(rows[0].granted.limits.pids, 50);
  assert.equal(rows[0].granted.limits.wallMs, 5000);
  assert.deepEqual(rows[0].granted.totals, { pids: 60 });
});

test('session records are in the database before the job has ended, byte for byte', async () => {
  const record =
    '{"v":1,"seq":1,"ts":"2026-01-01T00:00:00.000Z","type":"x","data":{"a":"\\u0000 é"},"crc":"00000000"}';
  const second = record.replace('"seq":1', '"seq":2');
  const job = await bench.submit([{ record }, { durable: second }, { done: 0 }], { sessionId: 'ses_rec' });
  const ended = await bench.ended(job.jobId);
  assert.equal(ended.outcome, 'ok', JSON.stringify(ended));
  const { rows } = await bench.pool.query(
    `select seq, line from session_records where tenant_id = 'acme' and session_id = 'ses_rec' order by seq`,
  );
  assert.deepEqual(
    rows.map(({ seq, line }) => [seq, line.toString()]),
    [
      [1, record],
      [2, second],
    ],
  );
});

test('text with NUL and lone surrogates is kept', async () => {
  const metadata = { nul: 'a\u0000b', lone: '\ud800' };
  const job = await bench.submit([{ emit: { type: 'token', text: 'a\u0000b\ud800' } }, { done: 0 }], {
    metadata,
  });
  const ended = await bench.ended(job.jobId);
  assert.equal(ended.outcome, 'ok');
  assert.deepEqual(ended.metadata, metadata);
  assert.deepEqual(tokens((await bench.read(job.jobId)).lines), ['a\u0000b\ud800']);
});

test('two long jobs of different sessions run at the same time', async () => {
  const jobs = await Promise.all([1, 2].map(() => bench.submit([{ sleepMs: 400 }, { done: 0 }])));
  const views = await Promise.all(jobs.map(({ jobId }) => bench.ended(jobId)));
  const [a, b] = views;
  assert.ok((a?.startedAt ?? '') < (b?.endedAt ?? '') && (b?.startedAt ?? '') < (a?.endedAt ?? ''));
});

async function gone(path: string): Promise<void> {
  for (let n = 0; n < 100 && existsSync(path); n++) await sleep(10);
  assert.equal(existsSync(path), false, 'the spool is pruned');
}

test('a job whose gateway cannot listen never gets its prompt and ends as spawn_failed at stage gateway', async () => {
  const { open } = bench.gateway;
  bench.gateway.open = () => Promise.reject(new Error('no room for a socket'));
  try {
    const job = await bench.submit([say('never'), { done: 0 }]);
    const { lines } = await bench.read(job.jobId);
    assert.deepEqual(tokens(lines), []);
    const end = lines.at(-1);
    assert.deepEqual([end?.outcome, end?.cause.stage], ['spawn_failed', 'gateway'], JSON.stringify(end));
  } finally {
    bench.gateway.open = open;
  }
});

test('who has read end is told the same by the job itself', async () => {
  for (let n = 0; n < 10; n += 1) {
    const job = await bench.submit([{ done: 0 }]);
    let text = '';
    const signal = AbortSignal.timeout(30_000);
    for await (const lines of await bench.jobs.events(OPERATOR, job.jobId, { follow: true, signal })) {
      text += lines.toString();
      if (!text.includes('"type":"end"')) continue;
      const { state, outcome } = await bench.jobs.get(OPERATOR, job.jobId);
      assert.deepEqual([state, outcome], ['ended', 'ok']);
    }
    assert.match(text, /"type":"end"/);
  }
});
