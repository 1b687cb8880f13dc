// What a supervisor relies on at the edges: signals sent twice, readers that are stuck, closed or full descriptors.
import assert from 'node:assert/strict';
import { execFile, execFileSync, spawn } from 'node:child_process';
import { existsSync, readFileSync } from 'node:fs';
import { join } from 'node:path';
import { type TestContext, test } from 'node:test';
import { setTimeout as sleep } from 'node:timers/promises';
import { contentChunk, type Reply, toolCallChunk } from '../../worker/index.ts';
import { startFake } from './scripted-run.ts';
import { buildBundle, bundle, makeFolder, readSession, startWorker, terminal } from './worker-process.ts';

const alive = (mark: string): string[] =>
  execFileSync('ps', ['-eo', 'stat=,args='], { encoding: 'utf8' })
    .split('\n')
    .filter((line) => !line.startsWith('Z') && line.endsWith(`sleep ${mark}`));

async function until(what: () => boolean): Promise<void> {
  for (let tries = 0; tries < 1000 && !what(); tries += 1) await sleep(20);
  assert.ok(what(), what.toString());
}

let count = 0;
const uniqueMark = (): string => `${4_000_000 + process.pid}.${count++}`;

/** A worker whose tool runs: a shell that ignores polite signals and a child of its own session. */
async function startBusy(t: TestContext) {
  const mark = uniqueMark();
  const command = `trap "" TERM INT HUP; setsid sleep ${mark} & touch ready; sleep ${mark}`;
  const fake = await startFake(t, [{ sse: [toolCallChunk('bash', { command })] }]);
  const home = makeFolder(t);
  const worker = startWorker(t, ['-p', 'x', '--session-id', 's'], { home, baseUrl: fake.baseUrl });
  await until(() => existsSync(join(home, 'ready')));
  return { mark, home, worker };
}

for (const [signals, code, errorCode] of [
  [['SIGINT', 'SIGINT'], 130, 'interrupted'],
  [['SIGTERM', 'SIGINT', 'SIGTERM'], 143, 'terminated'],
  [['SIGHUP'], 129, 'terminated'],
] as const) {
  test(`${signals.join(' and ')} right after each other exit ${code}, with a terminal event, no tool left, the session on disk`, async (t) => {
    const { mark, home, worker } = await startBusy(t);
    for (const signal of signals) {
      worker.child.kill(signal);
      await sleep(5);
    }
    const end = await worker.ended;
    const last = terminal(end.events);
    assert.deepEqual([end.code, last.type === 'error' ? last.code : last], [code, errorCode]);
    assert.deepEqual(alive(mark), []);
    assert.equal(readSession(home, 's').at(-1)?.data.code, errorCode);
  });
}

const flood = (count: number): Reply => ({
  sse: Array.from({ length: count }, () => contentChunk('x'.repeat(100_000))),
});

test('a reader that takes nothing keeps neither memory nor a run that is to end', async (t) => {
  buildBundle();
  const fake = await startFake(t, [flood(60)]);
  const home = makeFolder(t);
  const env = { PATH: process.env.PATH, DJINN_HOME: home, DJINN_API_KEY: 'k', DJINN_API_BASE: fake.baseUrl };
  const child = spawn(process.execPath, [bundle, '-p', 'x', '--session-id', 's'], {
    env,
    stdio: ['ignore', 'pipe', 'ignore'],
  });
  t.after(() => child.kill('SIGKILL'));
  await until(() => fake.requests.length > 0);
  await sleep(1000);
  const peak = Number(/VmHWM:\s+(\d+) kB/.exec(readFileSync(`/proc/${child.pid}/status`, 'utf8'))?.[1]);
  t.diagnostic(`peak ${Math.round(peak / 1024)} MB`);
  assert.ok(peak < 150 * 1024, `${peak} kB`);
  const signalMs = Date.now();
  child.kill('SIGTERM');
  const exit = await new Promise((resolve) => child.on('exit', resolve));
  assert.equal(exit, 143);
  // Not by the last resort after 15 s.
  assert.ok(Date.now() - signalMs < 13_000);
  assert.equal(readSession(home, 's').at(-1)?.data.code, 'terminated');
});

test('a reader that stops for a while gets every line whole afterwards', async (t) => {
  const fake = await startFake(t, [flood(60)]);
  const worker = startWorker(t, ['-p', 'x'], { home: makeFolder(t), baseUrl: fake.baseUrl });
  await worker.seen((event) => event.type === 'token');
  worker.child.stdout?.pause();
  await sleep(1000);
  worker.child.stdout?.resume();
  const last = terminal((await worker.ended).events);
  assert.equal(last.type === 'done' ? last.text.length : last, 6_000_000);
});

test('a reader that goes away while a tool runs ends the run with 1, and what the tool left running', async (t) => {
  const mark = uniqueMark();
  const command = `sleep ${mark} & touch ready; sleep 1; seq 20000`;
  const fake = await startFake(t, [{ sse: [toolCallChunk('bash', { command })] }]);
  const home = makeFolder(t);
  const worker = startWorker(t, ['-p', 'x', '--session-id', 's'], { home, baseUrl: fake.baseUrl });
  await until(() => existsSync(join(home, 'ready')));
  worker.child.stdout?.destroy();
  assert.equal(await new Promise((resolve) => worker.child.on('exit', resolve)), 1);
  assert.deepEqual(alive(mark), []);
  assert.equal(readSession(home, 's').at(-1)?.data.code, 'output_closed');
});

test('an open stdin that says nothing does not keep `-p -` from a signal', async (t) => {
  const worker = startWorker(t, ['-p', '-'], {
    home: makeFolder(t),
    baseUrl: 'http://127.0.0.1:1/v1',
    stdio: ['pipe', 'pipe', 'pipe'],
  });
  await sleep(1000);
  worker.child.kill('SIGTERM');
  const end = await worker.ended;
  assert.deepEqual([end.code, terminal(end.events).type], [143, 'error']);
});

for (const [redirection, code, outcome] of [
  ['0<&-', 0, 'done'],
  ['2>&-', 0, 'done'],
  ['2>/dev/full', 0, 'done'],
  ['1>/dev/full', 1, 'output_closed'],
] as const) {
  test(`a worker started with ${redirection} exits ${code} and its session says ${outcome}`, async (t) => {
    const fake = await startFake(t, [{ sse: [contentChunk('ok')] }]);
    const home = makeFolder(t);
    buildBundle();
    const env = {
      PATH: process.env.PATH,
      DJINN_HOME: home,
      DJINN_API_KEY: 'k',
      DJINN_API_BASE: fake.baseUrl,
    };
    const command = `"${process.execPath}" "${bundle}" -p x --session-id s ${redirection}`;
    const exit = await new Promise((resolve) => {
      execFile('bash', ['-c', command], { cwd: home, env }, (error) =>
        resolve(error === null ? 0 : error.code),
      );
    });
    const end = readSession(home, 's').at(-1)?.data;
    assert.deepEqual([exit, end.code ?? end.outcome], [code, outcome]);
  });
}
