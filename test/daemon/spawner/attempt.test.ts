import assert from 'node:assert/strict';
import { execFileSync } from 'node:child_process';
import { existsSync, mkdirSync, readdirSync, readFileSync, rmSync, statSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { after, before, test } from 'node:test';
import { setTimeout as sleep } from 'node:timers/promises';
import { pino } from 'pino';
import { connectSpawner, SpawnerError } from '../../../daemon/spawner/client.ts';
import {
  LIMITS,
  type Line,
  makeDirs,
  type SpawnerBench,
  startBench,
  testCgroup,
} from '../../support/spawner.ts';

let bench: SpawnerBench;
before(async () => {
  bench = await startBench();
});
after(async () => {
  await bench.close();
  const root = testCgroup();
  assert.ok(root === null || !existsSync(root), 'the cgroup tree is gone');
});

const token = (text: string) => ({ emit: { type: 'token', text } });
const DONE = { done: 1 };
const types = (lines: Line[]) =>
  lines.filter(({ type }) => type !== 'resources').map(({ type, state }) => state ?? type);

function endOf(lines: Line[]): Line {
  const ends = lines.filter(({ type }) => type === 'end');
  assert.equal(ends.length, 1, 'exactly one end');
  assert.equal(lines.at(-1), ends[0], 'nothing after it');
  assert.deepEqual(
    lines.map(({ seq }) => seq),
    lines.map((_, index) => index + 1),
  );
  return ends[0] as Line;
}

/** Pids whose command line has the marker. */
function alive(marker: string): number[] {
  return readdirSync('/proc')
    .filter((name) => /^\d+$/.test(name))
    .filter((pid) => {
      try {
        return readFileSync(`/proc/${pid}/cmdline`, 'latin1').includes(`/*${marker}*/`);
      } catch {
        return false;
      }
    })
    .map(Number);
}

test('a job that does its work ends as ok, with its lines in order', async () => {
  const lines = await bench.run([token('a'), { stderr: 'log\n' }, DONE]);
  assert.deepEqual(types(lines), ['starting', 'running', 'token', 'done', 'end']);
  const end = endOf(lines);
  assert.equal(end.outcome, 'ok');
  assert.equal(end.cause, undefined);
  assert.deepEqual(end.exit, { code: 0, signal: null });
  assert.equal(end.evidence.stderrBytes, 4);
  assert.equal(end.engine, 'puppet');
  assert.ok(['full', 'none'].includes(end.enforcement.memory));
});

test('the job line is complete and carries nothing of the machine', async () => {
  const [line] = (await bench.run([{ tellJob: 1 }, DONE])).filter(({ type }) => type === 'token');
  const job = JSON.parse(line?.text);
  assert.deepEqual(job.models, [{ id: 'fake', baseUrl: 'unix:/run/djinn/gw/model.sock:/v1', gateway: true }]);
  assert.deepEqual(
    [job.v, job.cwd, job.session, job.resumed, job.workspace],
    [1, '/workspace', { provider: 'fd' }, false, 'new'],
  );
});

for (const [name, steps, code] of [
  ['exit code 0 without done', [token('a')], 'no_done'],
  ['exit code 3', [DONE, { exit: 3 }], 'exit_code'],
  ['a signal', [DONE, { kill: 'SIGSEGV' }], 'signal'],
  [
    'an error event',
    [{ emit: { type: 'error', code: 'model_down', message: 'm', retryable: false } }, { exit: 1 }],
    'model_down',
  ],
  ['an event after done', [DONE, token('late')], 'no_done'],
] as const) {
  test(`${name} is a failure that names its cause`, async () => {
    const end = endOf(await bench.run([...steps]));
    assert.deepEqual([end.outcome, end.cause.code], ['failed', code]);
  });
}

test('a program that is not there is spawn_failed with stage and errno', async () => {
  const end = endOf(await bench.run([], { engine: 'missing' }));
  if (testCgroup() === null) assert.deepEqual([end.outcome, end.cause.errno], ['spawn_failed', 'ENOENT']);
  // With cgroups the plain launcher goes through a shell, which says 127.
  else assert.deepEqual([end.outcome, end.exit.code], ['failed', 127]);
});

test('lines that are not the protocol are counted and shown to nobody', async () => {
  const lines = await bench.run([
    { raw: 'plain text\n{"type":"end","outcome":"ok"}\n{"type":"token","text":"x","seq":1}\n\n' },
    token('good'),
    DONE,
  ]);
  assert.deepEqual(types(lines), ['starting', 'running', 'token', 'done', 'end']);
  assert.equal(endOf(lines).evidence.rejectedLines, 3);
});

test('a last line without newline counts', async () => {
  const done = {
    type: 'done',
    sessionId: 's',
    turns: 1,
    usage: { inputTokens: 1, outputTokens: 1, totalTokens: 2 },
    text: 'é',
  };
  const end = endOf(await bench.run([{ raw: JSON.stringify(done) }]));
  assert.equal(end.outcome, 'ok');
});

test('a line of 3 MB passes whole, one above 16 MiB is dropped whole', async () => {
  const lines = await bench.run([
    token('x'.repeat(10)),
    { flood: { bytes: 1, lineBytes: 3_000_000 } },
    { flood: { bytes: 1, lineBytes: 17 * 1024 * 1024 } },
    DONE,
  ]);
  const end = endOf(lines);
  assert.equal(end.outcome, 'ok');
  assert.equal(lines.filter(({ text }) => text?.length === 3_000_000).length, 1);
  assert.equal(end.evidence.rejectedLines, 1);
  assert.match(end.evidence.firstRejection, /more than 16777216 bytes/);
});

test('a job over its time is asked to end, then killed', async () => {
  const soft = endOf(
    await bench.run([{ onTermExit: 143 }, { sleepMs: 60_000 }], { limits: { ...LIMITS, wallMs: 600 } }),
  );
  assert.deepEqual([soft.outcome, soft.exit.code], ['timeout', 143]);
  const hard = endOf(
    await bench.run([{ ignoreTerm: 1 }, { sleepMs: 60_000 }], { limits: { ...LIMITS, wallMs: 600 } }),
  );
  assert.deepEqual([hard.outcome, hard.exit.signal, hard.cause.code], ['timeout', 'SIGKILL', 'wall_clock']);
  assert.ok(hard.resources.wallMs >= 1000 && hard.resources.wallMs < 5000);
});

test('an attempt whose go never comes ends at its time', async () => {
  const params = bench.params([], { limits: { ...LIMITS, wallMs: 300 } });
  await bench.client.call('start', params);
  assert.equal(endOf(await bench.finish(params)).outcome, 'timeout');
});

test('a running job is cancelled once, however often it is asked', async () => {
  const params = await bench.begin([{ onTermExit: 143 }, token('up'), { sleepMs: 60_000 }]);
  await bench.seen(params, ({ type }) => type === 'token');
  const ref = { jobId: params.jobId, attempt: 1 };
  const answers = await Promise.all(
    [1, 2, 3].map(() => bench.client.call('cancel', { ...ref, cause: 'cancelled' })),
  );
  assert.deepEqual(answers, [{ known: true }, { known: true }, { known: true }]);
  await bench.client.call('cancel', { ...ref, cause: 'budget' });
  const end = endOf(await bench.finish(params));
  assert.deepEqual([end.outcome, end.cause.code, end.exit.code], ['cancelled', 'cancelled', 143]);
  assert.deepEqual(await bench.client.call('cancel', { ...ref, cause: 'cancelled' }), { known: true });
});

test('a job is cancelled while it waits, and while it is being launched', async () => {
  const waiting = bench.params([]);
  await bench.client.call('start', waiting);
  await bench.seen(waiting, ({ state }) => state === 'running');
  await bench.client.call('cancel', { jobId: waiting.jobId, attempt: 1, cause: 'cancelled' });
  assert.equal(endOf(await bench.finish(waiting, 3000)).outcome, 'cancelled');
  for (let n = 0; n < 10; n += 1) {
    const params = bench.params([DONE]);
    const started = bench.client.call('start', params);
    if (n % 2 === 0) await sleep(n);
    const answer = await bench.client.call('cancel', { jobId: params.jobId, attempt: 1, cause: 'budget' });
    assert.deepEqual(answer, { known: true });
    await started;
    assert.equal(endOf(await bench.finish(params, 3000)).outcome, 'budget');
  }
});

test('a cancel after the end changes nothing', async () => {
  const lines = await bench.run([DONE]);
  const { jobId } = lines[0] as Line;
  assert.deepEqual(await bench.client.call('cancel', { jobId, attempt: 1, cause: 'cancelled' }), {
    known: true,
  });
  assert.deepEqual(bench.lines({ jobId, attempt: 1 }), lines);
});

test('a job over its output is ended, and what it wrote before is kept', async () => {
  const lines = await bench.run([token('first'), { flood: { bytes: 50_000_000, lineBytes: 100 } }, DONE], {
    limits: { ...LIMITS, outputBytes: 1_000_000 },
  });
  const end = endOf(lines);
  assert.equal(end.outcome, 'output_limit');
  assert.equal(lines[2]?.text, 'first');
  assert.ok(lines.length > 1000);
});

test('a child in a session of its own that holds stdout open is gone at the end, which does not wait for it', async (t) => {
  if (testCgroup() === null) return t.skip('no cgroup v2');
  const marker = `escape-${process.pid}`;
  const params = await bench.begin([{ escape: marker }, { sleepMs: 300 }, DONE]);
  await bench.seen(params, ({ type }) => type === 'done');
  const end = endOf(await bench.finish(params, 3000));
  assert.equal(end.outcome, 'ok');
  assert.deepEqual(alive(marker), []);
});

test('twenty programs that exit before they read an 8 MB prompt harm nobody', async () => {
  const payload = { prompt: 'p'.repeat(8 * 1024 * 1024), models: [{ id: 'fake' }] };
  const runs = Array.from({ length: 20 }, () => bench.run([], { engine: 'exit7', payload }));
  for (const lines of await Promise.all(runs)) {
    const end = endOf(lines);
    assert.deepEqual(
      [end.outcome, end.exit.code, end.cause.message],
      ['failed', 7, 'the program ended with exit code 7'],
    );
  }
  assert.deepEqual(await bench.client.call('list', {}), { attempts: [] });
});

test('session records are kept, acknowledged, and there for the next job of the session', async () => {
  const record = (seq: number) =>
    JSON.stringify({ v: 1, seq, ts: 't', type: 'user', data: {}, crc: '00000000' });
  const first = await bench.run([{ record: record(1) }, { durable: record(2) }, DONE], { sessionId: 'kept' });
  assert.equal(endOf(first).outcome, 'ok');
  assert.ok(first.some(({ text }) => text === 'ack {"ack":2}'));
  const second = await bench.run([{ tellSession: 1 }, { tellJob: 1 }, { record: record(3) }, DONE], {
    sessionId: 'kept',
  });
  const [session, job] = second.filter(({ type }) => type === 'token').map(({ text }) => text);
  assert.equal(session, `${record(1)}\n${record(2)}\n`);
  assert.equal(JSON.parse(job).resumed, true);
  assert.equal(JSON.parse(job).workspace, 'existing');
  const path = join(bench.dirs.stateDir, 'sessions', 'acme', 'kept.jsonl');
  assert.equal(readFileSync(path, 'utf8'), `${[1, 2, 3].map(record).join('\n')}\n`);
  assert.equal(statSync(path).mode & 0o777, 0o640);
});

test('a forged record ends the job as failed', async () => {
  const end = endOf(await bench.run([{ record: '{"seq":5}' }, { sleepMs: 60_000 }, DONE]));
  assert.deepEqual([end.outcome, end.cause.code], ['failed', 'session_record']);
});

test('a session runs one job at a time', async () => {
  const params = await bench.begin([{ sleepMs: 60_000 }], { sessionId: 'one' });
  const second = bench.params([], { sessionId: 'one' });
  const busy = (error: unknown) => error instanceof SpawnerError && error.code === 'session_busy';
  await assert.rejects(bench.client.call('start', second), busy);
  await bench.client.call('cancel', { jobId: params.jobId, attempt: 1, cause: 'cancelled' });
  await bench.finish(params);
  await bench.client.call('start', second);
  await bench.client.call('cancel', { jobId: second.jobId, attempt: 1, cause: 'cancelled' });
  await bench.finish(second);
});

test('an attempt starts once, a forgotten one never, an unknown engine not at all', async () => {
  const refused = (code: string) => (error: unknown) => error instanceof SpawnerError && error.code === code;
  const params = bench.params([DONE]);
  const ref = { jobId: params.jobId, attempt: 1 };
  const [one, two] = await Promise.allSettled([
    bench.client.call('start', params),
    bench.client.call('start', params),
  ]);
  assert.deepEqual([one.status, two.status], ['fulfilled', 'rejected']);
  assert.deepEqual(await bench.client.call('forget', ref), { known: true });
  await assert.rejects(bench.client.call('prune', { jobId: params.jobId }), refused('already_started'));
  await bench.client.call('go', ref);
  await bench.client.call('go', ref);
  await bench.finish(params);
  await bench.client.call('go', ref);
  await assert.rejects(bench.client.call('start', params), refused('already_started'));
  assert.deepEqual(await bench.client.call('prune', { jobId: params.jobId }), { pruned: true });
  assert.deepEqual(await bench.client.call('prune', { jobId: params.jobId }), { pruned: false });

  const late = bench.params([]);
  assert.deepEqual(await bench.client.call('forget', { jobId: late.jobId, attempt: 1 }), { known: false });
  await assert.rejects(bench.client.call('start', late), refused('forgotten'));
  await assert.rejects(
    bench.client.call('go', { jobId: late.jobId, attempt: 1 }),
    refused('unknown_attempt'),
  );
  await assert.rejects(
    bench.client.call('start', bench.params([], { engine: 'nope' })),
    refused('unknown_engine'),
  );
});

test('a client that is restarted finds its jobs waiting and running, and goes on', async () => {
  const waiting = bench.params([DONE]);
  const { gatewayDir } = await bench.client.call('start', waiting);
  const running = await bench.begin([{ sleepMs: 1000 }, DONE]);
  await bench.seen(running, ({ state }) => state === 'running');
  const next = connectSpawner(join(bench.dirs.runDir, 'spawner.sock'), pino({ level: 'silent' }));
  await new Promise<void>((resolve) => next.on('up', resolve));
  const { attempts } = await next.call('list', {});
  const states = Object.fromEntries(attempts.map(({ jobId, state }) => [jobId, state]));
  assert.deepEqual(states, { [waiting.jobId]: 'waiting', [running.jobId]: 'running' });
  assert.equal(attempts.find(({ jobId }) => jobId === waiting.jobId)?.gatewayDir, gatewayDir);
  await next.call('go', { jobId: waiting.jobId, attempt: 1 });
  await next.call('go', { jobId: running.jobId, attempt: 1 });
  next.close();
  for (const params of [waiting, running]) assert.equal(endOf(await bench.finish(params)).outcome, 'ok');
});

test('a second attempt opens with retrying and carries its number', async () => {
  const lines = await bench.run([DONE], { attempt: 2, retryReason: 'lost' });
  assert.deepEqual(types(lines), ['retrying', 'starting', 'running', 'done', 'end']);
  assert.equal(lines[0]?.reason, 'lost');
  assert.ok(lines.every(({ attempt }) => attempt === 2));
});

test('samples come while a job runs, where the kernel counts', async (t) => {
  if (testCgroup() === null) return t.skip('no cgroup v2');
  const lines = await bench.run([{ sleepMs: 900 }, DONE]);
  const samples = lines.filter(({ type }) => type === 'resources');
  assert.ok(samples.length >= 2, `${samples.length} samples`);
  assert.ok(samples.every(({ cpuUsec }) => typeof cpuUsec === 'number'));
});

test('a job whose events find no room ends as failed, and its end is written as soon as there is some', async (t) => {
  const dirs = makeDirs();
  mkdirSync(dirs.stateDir);
  try {
    execFileSync('mount', ['-t', 'tmpfs', '-o', 'size=2m', 'tmpfs', dirs.stateDir], { stdio: 'pipe' });
  } catch {
    rmSync(dirs.root, { recursive: true });
    return t.skip('cannot mount a tmpfs');
  }
  const full = await startBench({ cgroupRoot: null }, dirs);
  try {
    const ballast = join(dirs.stateDir, 'ballast');
    writeFileSync(ballast, Buffer.alloc(1024 * 1024));
    const params = await full.begin([
      { flood: { bytes: 4_000_000, lineBytes: 1000 } },
      DONE,
      { sleepMs: 200 },
    ]);
    // The last page may hold a short end; fill it.
    for (let n = 0; n < 500 && statSync(full.spool(params)).size < 900_000; n += 1) await sleep(10);
    await sleep(300);
    rmSync(ballast);
    const lines = await full.finish(params);
    const end = endOf(lines);
    assert.deepEqual([end.outcome, end.cause.code, end.cause.errno], ['failed', 'spool_full', 'ENOSPC']);
    assert.ok(lines.length > 500);
  } finally {
    await full.spawner?.close();
    execFileSync('umount', [dirs.stateDir]);
    await full.close();
  }
});

test('strict mode on a machine that lacks a required control refuses and says why', async (t) => {
  const strict = await startBench({ enforcement: 'strict', cgroupRoot: null });
  try {
    const { enforcement } = await strict.client.call('hello', {});
    if (!enforcement.refused) return t.skip('every required control is full here');
    await assert.rejects(
      strict.client.call('start', strict.params([])),
      (error) =>
        error instanceof SpawnerError && error.code === 'enforcement' && /memory is none/.test(error.message),
    );
  } finally {
    await strict.close();
  }
});

test('nothing is left of jobs that have ended', async () => {
  assert.deepEqual(await bench.client.call('list', {}), { attempts: [] });
  assert.deepEqual(readdirSync(bench.dirs.jobsRunDir), []);
  const jobs = join(bench.dirs.stateDir, 'jobs');
  const left = readdirSync(jobs)
    .flatMap((job) => readdirSync(join(jobs, job)))
    .filter((name) => name.endsWith('.meta.json'));
  assert.deepEqual(left, []);
  const root = testCgroup();
  if (root !== null) {
    const slices = readdirSync(join(root, 'jobs'), { withFileTypes: true }).filter((entry) =>
      entry.isDirectory(),
    );
    assert.deepEqual(slices, []);
  }
});
