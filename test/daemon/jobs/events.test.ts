// Event streams: cut anywhere and attached again, live and stored, slow readers, pruned spools, few connections.
import assert from 'node:assert/strict';
import { existsSync } from 'node:fs';
import { after, before, test } from 'node:test';
import { setTimeout as sleep } from 'node:timers/promises';
import type { StartParams } from '../../../daemon/spawner/wire.ts';
import { cursors, type JobsBench, OPERATOR, startJobs, tokens } from '../../support/jobs.ts';
import { startPostgres, type TestPostgres } from '../../support/postgres.ts';
import type { Line } from '../../support/spawner.ts';
import { StandInSpawner } from '../../support/spawner-stand-in.ts';

const POOL_SIZE = 5;
let postgres: TestPostgres;
let spawner: StandInSpawner;
let bench: JobsBench;

before(async () => {
  postgres = await startPostgres();
  spawner = new StandInSpawner();
  bench = await startJobs(postgres, spawner, { stateDir: spawner.stateDir, max: POOL_SIZE, maxRunning: 64 });
  await bench.tenant('acme', { maxRunning: 64 });
});
after(async () => {
  await bench?.stop();
  spawner?.close();
  await postgres?.stop();
});

/** A job that is at `go` and stays there until the test writes its lines. */
async function openJob(): Promise<StartParams> {
  const begun = new Promise<StartParams>((resolve) => {
    spawner.program = resolve;
  });
  await bench.submit([]);
  return begun;
}

const token = (n: number) => ({ type: 'token', text: `t${n}` });

async function take(jobId: string, after: string | undefined, count: number): Promise<Line[]> {
  const stop = new AbortController();
  const options = { follow: true, signal: stop.signal, ...(after === undefined ? {} : { after }) };
  const lines: Line[] = [];
  for await (const chunk of await bench.jobs.events(OPERATOR, jobId, options)) {
    lines.push(
      ...chunk
        .toString()
        .split('\n')
        .slice(0, -1)
        .map((line) => JSON.parse(line) as Line),
    );
    if (lines.length >= count) break;
  }
  stop.abort();
  return lines;
}

test('after any line, running or ended, come exactly the lines behind it (C116)', async () => {
  const params = await openJob();
  for (let n = 0; n < 20; n++) spawner.write(params, token(n));
  const { jobId } = params;
  const sofar = await take(jobId, undefined, 22);
  assert.deepEqual(cursors(sofar), ['0-0', ...Array.from({ length: 21 }, (_, n) => `1-${n + 1}`)]);
  for (const cut of [0, 1, 7, 20]) {
    const rest = await take(jobId, `${sofar[cut]?.attempt}-${sofar[cut]?.seq}`, 21 - cut);
    assert.deepEqual(cursors(rest), cursors(sofar.slice(cut + 1)));
  }
  // The last one there is: the live tail goes on from it.
  const tail = bench.read(jobId, '1-21');
  await sleep(50);
  for (let n = 20; n < 30; n++) spawner.write(params, token(n));
  spawner.seal(params);
  assert.deepEqual(
    cursors((await tail).lines),
    Array.from({ length: 11 }, (_, n) => `1-${n + 22}`),
  );
  await bench.ended(jobId);
  for (let n = 0; n < 100 && existsSync(spawner.path(params)); n++) await sleep(10);
  const ended = await bench.read(jobId);
  for (const cut of [0, 1, 15, ended.lines.length - 2, ended.lines.length - 1]) {
    const at = ended.lines[cut] as Line;
    const { lines } = await bench.read(jobId, `${at.attempt}-${at.seq}`);
    assert.deepEqual(cursors(lines), cursors(ended.lines.slice(cut + 1)));
  }
});

test('cursors that no line has are refused, running and ended (C116)', async () => {
  const params = await openJob();
  spawner.write(params, token(0));
  const { jobId } = params;
  const refused = async (after: string) => {
    const options = { after, follow: true, signal: AbortSignal.timeout(5000) };
    await assert.rejects(bench.jobs.events(OPERATOR, jobId, options), { code: 'DJ_CURSOR_INVALID' }, after);
  };
  const bad = ['1-99', '2-1', '0-1', '-1', '1--1', 'x', '1', '99-1', ''];
  for (const after of bad) await refused(after);
  spawner.seal(params);
  await bench.ended(jobId);
  for (const after of bad) await refused(after);
  await refused('1-4');
  assert.equal((await bench.read(jobId, '1-3')).text, '');
});

test('without follow the stream ends with what is there, in every state', async () => {
  const collect = async (jobId: string) => {
    const chunks: Buffer[] = [];
    const options = { follow: false, signal: AbortSignal.timeout(5000) };
    for await (const chunk of await bench.jobs.events(OPERATOR, jobId, options)) chunks.push(chunk);
    return Buffer.concat(chunks).toString().trim().split('\n').length;
  };
  const params = await openJob();
  assert.equal(await collect(params.jobId), 2);
  spawner.write(params, token(0));
  assert.equal(await collect(params.jobId), 3);
  spawner.seal(params);
  await bench.ended(params.jobId);
  assert.equal(await collect(params.jobId), 4);
});

test('a reader that is in the middle of a spool gets all of it though the spool is pruned meanwhile', async () => {
  const params = await openJob();
  const text = 'x'.repeat(2000);
  for (let n = 0; n < 1500; n++) spawner.write(params, { type: 'token', text });
  const options = { follow: true, signal: AbortSignal.timeout(20_000) };
  const lines: string[] = [];
  const reader = (await bench.jobs.events(OPERATOR, params.jobId, options))[Symbol.asyncIterator]();
  for (let n = 0; n < 3; n++) lines.push(String((await reader.next()).value));
  spawner.seal(params);
  await bench.ended(params.jobId);
  for (let n = 0; n < 100 && existsSync(spawner.path(params)); n++) await sleep(10);
  assert.equal(existsSync(spawner.path(params)), false);
  for (let step = await reader.next(); step.done !== true; step = await reader.next())
    lines.push(String(step.value));
  const stored = await bench.read(params.jobId);
  assert.equal(lines.join(''), stored.text);
  const { rows } = await bench.pool.query(
    'select first_seq, last_seq, raw_bytes, octet_length(data) as bytes from event_segments where job_id = $1 order by 1',
    [params.jobId],
  );
  assert.ok(rows.length > 3, 'more than one chunk');
  const sum = (column: string) => rows.reduce((total, row) => total + row[column], 0);
  assert.ok(sum('bytes') < sum('raw_bytes') / 10, 'compressed');
  for (const [index, row] of rows.entries()) {
    assert.equal(row.first_seq, index === 0 ? 1 : rows[index - 1].last_seq + 1);
    assert.ok(row.raw_bytes <= 1024 * 1024);
  }
});

test('lines of megabytes, torn writes and lines split over reads arrive whole', async () => {
  const { appendFileSync } = await import('node:fs');
  const params = await openJob();
  const reading = bench.read(params.jobId);
  const head = `{"seq":2,"ts":"2026-01-01T00:00:00.000Z","jobId":"${params.jobId}","attempt":1,"type":"token","text":"`;
  appendFileSync(spawner.path(params), head);
  await sleep(30);
  for (let n = 0; n < 5; n++) appendFileSync(spawner.path(params), 'é'.repeat(300_000));
  await sleep(30);
  appendFileSync(spawner.path(params), '"}\n');
  spawner.skip(params, 1);
  spawner.seal(params);
  const { lines } = await reading;
  assert.deepEqual(cursors(lines), ['0-0', '1-1', '1-2', '1-3']);
  assert.equal(tokens(lines)[0], 'é'.repeat(1_500_000));
});

test('a reader that follows before the job has begun sees it from the first line', async () => {
  await bench.pool.query('update tenants set max_running = 0');
  spawner.program = (params) => spawner.seal(params);
  const { jobId } = await bench.submit([]);
  const reading = bench.read(jobId);
  await sleep(100);
  await bench.pool.query('update tenants set max_running = 64');
  assert.deepEqual(cursors((await reading).lines), ['0-0', '1-1', '1-2']);
});

test('twenty open streams hold no database connection (C110)', async () => {
  const all = await Promise.all(Array.from({ length: 20 }, openJobOfItsOwn));
  const stop = new AbortController();
  const streams = await Promise.all(
    all.map(({ jobId }) => bench.jobs.events(OPERATOR, jobId, { follow: true, signal: stop.signal })),
  );
  const reading = streams.map(async (stream) => {
    let bytes = 0;
    for await (const chunk of stream) bytes += chunk.length;
    return bytes;
  });
  await sleep(200);
  for (let n = 0; n < 20; n++) {
    const begun = Date.now();
    await bench.jobs.get(OPERATOR, all[n % all.length]?.jobId ?? '');
    assert.ok(Date.now() - begun < 500);
  }
  const { rows } = await bench.pool.query(
    `select count(*)::int as total, count(*) filter (where state like 'idle in transaction%')::int as stuck
     from pg_stat_activity where datname = current_database() and backend_type = 'client backend'`,
  );
  assert.ok(rows[0].total <= POOL_SIZE, `${rows[0].total} connections`);
  assert.equal(rows[0].stuck, 0);
  for (const params of all) spawner.seal(params);
  for (const bytes of await Promise.all(reading)) assert.ok(bytes > 0);
});

async function openJobOfItsOwn(): Promise<StartParams> {
  spawner.program = () => {};
  const { jobId } = await bench.submit([]);
  await bench.until(jobId, ({ state }) => state !== 'queued');
  for (let n = 0; n < 500 && !spawner.isRunning(jobId); n++) await sleep(10);
  return spawner.started.find((params) => params.jobId === jobId) as StartParams;
}

test('an aborted stream ends at once and closes what it had open', async () => {
  const params = await openJob();
  const stop = new AbortController();
  const stream = await bench.jobs.events(OPERATOR, params.jobId, { follow: true, signal: stop.signal });
  const reading = (async () => {
    for await (const _ of stream);
  })();
  await sleep(50);
  const begun = Date.now();
  stop.abort();
  await reading;
  assert.ok(Date.now() - begun < 100);
  spawner.seal(params);
  await bench.ended(params.jobId);
});
