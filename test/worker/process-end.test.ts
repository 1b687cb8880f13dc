import assert from 'node:assert/strict';
import { execFile } from 'node:child_process';
import { existsSync, readFileSync } from 'node:fs';
import { join } from 'node:path';
import { test } from 'node:test';
import { setTimeout as sleep } from 'node:timers/promises';
import { promisify } from 'node:util';
import { contentChunk, stall, toolCallChunk } from '../../worker/index.ts';
import { startFake } from './scripted-run.ts';
import {
  buildBundle,
  bundle,
  makeFolder,
  parseEvents,
  readSession,
  runWorker,
  startWorker,
  terminal,
} from './worker-process.ts';

const execute = promisify(execFile);

function isAlive(pid: number): boolean {
  try {
    process.kill(pid, 0);
    return !readFileSync(`/proc/${pid}/stat`, 'utf8').includes(') Z ');
  } catch {
    return false;
  }
}

for (const [signal, code, errorCode] of [
  ['SIGINT', 130, 'interrupted'],
  ['SIGTERM', 143, 'terminated'],
] as const) {
  test(`${signal} during a tool exits ${code} with an error event, the session on disk and no tool left`, async (t) => {
    const fake = await startFake(t, [
      {
        sse: [
          toolCallChunk('bash', {
            command: 'sleep 987 & echo $! > pids; echo $$ >> pids; trap "" TERM INT; sleep 988',
          }),
        ],
      },
      { sse: [contentChunk('ok')] },
    ]);
    const home = makeFolder(t);
    const worker = startWorker(t, ['-p', 'go', '--session-id', 's'], { home, baseUrl: fake.baseUrl });
    const pidFile = join(home, 'pids');
    for (let tries = 0; tries < 500; tries += 1) {
      if (existsSync(pidFile) && readFileSync(pidFile, 'utf8').split('\n').length > 2) break;
      await sleep(20);
    }
    worker.child.kill(signal);
    const end = await worker.ended;
    const last = terminal(end.events);
    assert.deepEqual(
      [end.code, end.signal, last.type === 'error' ? last.code : last],
      [code, null, errorCode],
    );
    const pids = readFileSync(pidFile, 'utf8').trim().split('\n').map(Number);
    assert.equal(pids.length, 2);
    for (const pid of pids) assert.ok(!isAlive(pid), `process ${pid} is alive`);
    assert.deepEqual(
      readSession(home, 's')
        .slice(-2)
        .map((line) => line.type),
      ['tool_result', 'end'],
    );
    const resumed = await runWorker(t, ['-p', 'go on', '--session-id', 's'], { home, baseUrl: fake.baseUrl });
    assert.equal(resumed.code, 0);
    assert.ok(fake.requests.every((request) => request.problems.length === 0));
  });

  test(`${signal} during a model request and while waiting for a job exits ${code}`, async (t) => {
    const fake = await startFake(t, [stall()]);
    const home = makeFolder(t);
    const asking = startWorker(t, ['-p', 'go'], { home, baseUrl: fake.baseUrl });
    for (let tries = 0; tries < 500 && fake.requests.length === 0; tries += 1) await sleep(20);
    asking.child.kill(signal);
    const waiting = startWorker(t, ['--job', '-'], { home, stdio: ['pipe', 'pipe', 'pipe'] });
    await sleep(1000);
    waiting.child.kill(signal);
    for (const end of await Promise.all([asking.ended, waiting.ended])) {
      const last = terminal(end.events);
      assert.deepEqual([end.code, last.type === 'error' ? last.code : last], [code, errorCode]);
    }
  });
}

test('C097: a 3 MB answer comes whole through a reader that sleeps first', async (t) => {
  buildBundle();
  const fake = await startFake(t, [{ sse: [contentChunk('北'.repeat(1_000_000))] }]);
  const home = makeFolder(t);
  const env = { PATH: process.env.PATH, DJINN_HOME: home, DJINN_API_KEY: 'k', DJINN_API_BASE: fake.baseUrl };
  const command = `set -o pipefail; "${process.execPath}" "${bundle}" -p x | (sleep 2; cat) > out; echo $?`;
  const { stdout } = await execute('bash', ['-c', command], { cwd: home, env });
  assert.equal(stdout.trim(), '0');
  const last = terminal(parseEvents(readFileSync(join(home, 'out'), 'utf8')));
  assert.equal(last.type === 'done' ? last.text.length : last, 1_000_000);
});

test('C101: an open stdin that says nothing is not read', async (t) => {
  const fake = await startFake(t, [{ sse: [contentChunk('ok')] }]);
  const home = makeFolder(t);
  const worker = startWorker(t, ['-p', 'x'], {
    home,
    baseUrl: fake.baseUrl,
    stdio: ['pipe', 'pipe', 'pipe'],
  });
  assert.equal((await worker.ended).code, 0);
});

test('a reader that goes away ends the run with 1, its tools gone and the session on disk', async (t) => {
  const fake = await startFake(t, [
    { sse: Array.from({ length: 2000 }, () => contentChunk('x'.repeat(100))), pauseMs: 1 },
  ]);
  const home = makeFolder(t);
  const worker = startWorker(t, ['-p', 'x', '--session-id', 's'], { home, baseUrl: fake.baseUrl });
  await worker.seen((event) => event.type === 'token');
  worker.child.stdout?.destroy();
  const code = await new Promise((resolve) => worker.child.on('exit', resolve));
  assert.equal(code, 1);
  assert.equal(readSession(home, 's').at(-1)?.data.code, 'output_closed');
});

test('C044: a second worker on a session is refused quickly and clearly', async (t) => {
  const fake = await startFake(t, [stall()]);
  const home = makeFolder(t);
  const first = startWorker(t, ['-p', 'x', '--session-id', 's'], { home, baseUrl: fake.baseUrl });
  await first.seen((event) => event.type === 'session');
  const second = await runWorker(t, ['-p', 'y', '--session-id', 's'], { home, baseUrl: fake.baseUrl });
  const last = terminal(second.events);
  assert.deepEqual([second.code, last.type === 'error' ? last.code : last], [1, 'session_busy']);
  first.child.kill('SIGKILL');
});
