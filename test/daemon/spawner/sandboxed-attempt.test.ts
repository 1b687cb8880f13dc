// The whole attempt with the real sandbox: what attempt.test.ts shows with the plain launcher, as far as the two differ.
import assert from 'node:assert/strict';
import { lstatSync, readdirSync, readFileSync, statSync } from 'node:fs';
import { join } from 'node:path';
import { after, before, test } from 'node:test';
import { setTimeout as sleep } from 'node:timers/promises';
import { fileURLToPath } from 'node:url';
import type { EngineDefinition } from '../../../daemon/spawner/engines.ts';
import { LIMITS, type Line, type SpawnerBench, startBench, testCgroup } from '../../support/spawner.ts';

const isRoot = process.getuid?.() === 0;
const rootOnly = isRoot ? {} : { skip: 'needs root: real tenant users and mounts' };
const UID = 299_050;
const DAEMON = { uid: 299_060, gid: 299_060 };
const dir = fileURLToPath(new URL('../../support', import.meta.url));
const NODE = '/opt/djinn/node';
const PUPPET = '/opt/djinn/engine/puppet.cjs';
const engine = (name: string, argv: string[]): [string, EngineDefinition] => [
  name,
  { name, kind: 'command', argv, files: ['puppet.cjs'], dir },
];

let bench: SpawnerBench;
before(async () => {
  if (!isRoot) return;
  bench = await startBench({
    daemonUser: DAEMON,
    timing: { graceMs: 2000, sampleMs: 200, lingerMs: 2000 },
    parts: {
      engines: new Map([
        engine('puppet', [NODE, PUPPET]),
        engine('exit7', [NODE, PUPPET, 'exit', '7']),
        engine('missing', ['/nonexistent/program']),
        engine('data', [PUPPET]),
        [
          'own',
          { name: 'own', kind: 'command', argv: ['/opt/djinn/engine/hello.sh'], files: ['hello.sh'], dir },
        ],
      ]),
      accountOf: async () => ({ user: 'djt299050', uid: UID, gid: UID }),
    },
  });
});
after(async () => {
  await bench?.close();
});

const token = (text: string) => ({ emit: { type: 'token', text } });
const DONE = { done: 1 };
const last = (lines: Line[]): Line => lines.at(-1) as Line;

function processesOf(uid: number): string[] {
  return readdirSync('/proc').filter((pid) => {
    try {
      return (
        /^\d+$/.test(pid) &&
        new RegExp(`^Uid:\\s${uid}\\s`, 'm').test(readFileSync(`/proc/${pid}/status`, 'utf8'))
      );
    } catch {
      return false;
    }
  });
}

test(
  'a job runs in its sandbox and ends as ok; files have the owners of the contract',
  rootOnly,
  async () => {
    const params = bench.params([token('a'), { record: '{"v":1,"seq":1}' }, DONE]);
    const { gatewayDir } = await bench.client.call('start', params);
    const gateway = statSync(gatewayDir);
    assert.deepEqual([gateway.uid, gateway.gid, gateway.mode & 0o7777], [DAEMON.uid, UID, 0o2710]);
    await bench.client.call('go', { jobId: params.jobId, attempt: 1 });
    const end = last(await bench.finish(params));
    assert.equal(end.outcome, 'ok', JSON.stringify(end));
    assert.equal(end.enforcement.namespaces, 'full');
    const { stateDir } = bench.dirs;
    const owner = (path: string): unknown[] => {
      const stat = lstatSync(join(stateDir, path));
      return [stat.uid, stat.gid, (stat.mode & 0o7777).toString(8)];
    };
    assert.deepEqual(owner('jobs'), [0, DAEMON.gid, '750']);
    assert.deepEqual(owner(`jobs/${params.jobId}`), [0, DAEMON.gid, '750']);
    assert.deepEqual(owner(`jobs/${params.jobId}/1.ndjson`), [0, DAEMON.gid, '640']);
    assert.deepEqual(owner(`sessions/acme/${params.sessionId}.jsonl`), [0, DAEMON.gid, '640']);
    assert.deepEqual(owner('workspaces/acme'), [0, 0, '711']);
    assert.deepEqual(owner(`workspaces/acme/${params.sessionId}`), [UID, UID, '700']);
  },
);

test('a missing program and one that cannot be run are spawn_failed with their errno', rootOnly, async () => {
  for (const [name, errno] of [
    ['missing', 'ENOENT'],
    ['data', 'EACCES'],
  ] as const) {
    const end = last(await bench.run([], { engine: name }));
    assert.deepEqual(
      [end.outcome, end.cause.stage, end.cause.errno, end.exit],
      ['spawn_failed', 'exec', errno, null],
    );
  }
});

test(
  'twenty programs that exit before they read an 8 MB prompt end with their own code',
  rootOnly,
  async () => {
    const payload = { prompt: 'p'.repeat(8 * 1024 * 1024), models: [{ id: 'fake' }] };
    const runs = Array.from({ length: 20 }, () => bench.run([], { engine: 'exit7', payload }));
    for (const lines of await Promise.all(runs)) {
      const end = last(lines);
      assert.deepEqual([end.outcome, end.exit?.code], ['failed', 7], JSON.stringify(end));
    }
  },
);

test('TERM reaches the program itself: its own exit code is told', rootOnly, async () => {
  const params = await bench.begin([{ onTermExit: 143 }, token('up'), { sleepMs: 60_000 }]);
  await bench.seen(params, ({ type }) => type === 'token');
  await bench.client.call('cancel', { jobId: params.jobId, attempt: 1, cause: 'cancelled' });
  const end = last(await bench.finish(params));
  assert.deepEqual([end.outcome, end.exit.code], ['cancelled', 143]);
});

test('a cancelled program takes with it what it leaves running, without another wait', rootOnly, async () => {
  const params = await bench.begin([
    { onTermExit: 143 },
    { escape: 'left' },
    { escape: 'left' },
    token('up'),
    { sleepMs: 60_000 },
  ]);
  await bench.seen(params, ({ type }) => type === 'token');
  const cancelledMs = Date.now();
  await bench.client.call('cancel', { jobId: params.jobId, attempt: 1, cause: 'cancelled' });
  const end = last(await bench.finish(params));
  assert.deepEqual([end.outcome, end.exit.code], ['cancelled', 143]);
  assert.ok(Date.parse(end.ts) - cancelledMs < 1000, `${Date.parse(end.ts) - cancelledMs} ms`);
  assert.deepEqual(processesOf(UID), []);
});

test('a program that ignores TERM is killed after the grace', rootOnly, async () => {
  const end = last(
    await bench.run([{ ignoreTerm: 1 }, { sleepMs: 60_000 }], { limits: { ...LIMITS, wallMs: 500 } }),
  );
  assert.equal(end.outcome, 'timeout');
});

test('a cancel during the launch ends it, wherever it is', rootOnly, async () => {
  for (let ms = 0; ms < 40; ms += 4) {
    const params = bench.params([DONE]);
    await bench.client.call('start', params);
    await sleep(ms);
    await bench.client.call('cancel', { jobId: params.jobId, attempt: 1, cause: 'cancelled' });
    assert.equal(last(await bench.finish(params, 5000)).outcome, 'cancelled');
  }
  assert.deepEqual(processesOf(UID), []);
});

test(
  'nothing of a job is alive when its end is told, also a child in a session of its own',
  rootOnly,
  async () => {
    const lines = await bench.run([{ escape: 'sandboxed' }, { escape: 'sandboxed' }, { sleepMs: 300 }, DONE]);
    assert.equal(last(lines).outcome, 'ok');
    assert.deepEqual(processesOf(UID), []);
  },
);

test('200 MB pass while the memory of this process stays flat', rootOnly, async () => {
  await bench.run([{ flood: { bytes: 20e6, lineBytes: 1000 } }, DONE]);
  const before = process.memoryUsage().rss;
  let peak = before;
  const watch = setInterval(() => {
    peak = Math.max(peak, process.memoryUsage().rss);
  }, 50);
  const params = await bench.begin([{ flood: { bytes: 200e6, lineBytes: 1000 } }, DONE], {
    limits: { ...LIMITS, wallMs: 120_000 },
  });
  await bench.waitSealed(params, 120_000);
  clearInterval(watch);
  assert.ok(statSync(bench.spool(params)).size > 200e6);
  assert.ok(peak - before < 60 * 1024 ** 2, `grew by ${Math.round((peak - before) / 1024 ** 2)} MB`);
});

test('nothing is left: no run directory, no mount, no cgroup, no descriptor', rootOnly, async () => {
  const count = () => readdirSync('/proc/self/fd').length;
  await bench.run([DONE]);
  const before = count();
  await Promise.all(Array.from({ length: 10 }, () => bench.run([token('x'), DONE])));
  await sleep(100);
  assert.ok(count() <= before + 2, `${before} descriptors before, ${count()} after: ${bench.dirs.root}`);
  assert.deepEqual(readdirSync(bench.dirs.jobsRunDir), []);
  assert.ok(!readFileSync('/proc/self/mountinfo', 'utf8').includes(bench.dirs.root));
  const root = testCgroup();
  if (root === null) return;
  const slices = readdirSync(join(root, 'jobs'), { withFileTypes: true }).filter((entry) =>
    entry.isDirectory(),
  );
  assert.deepEqual(slices, []);
});

test('a file of an engine that can be executed is started by its path', rootOnly, async () => {
  const lines = await bench.run([], { engine: 'own' });
  assert.equal(last(lines).outcome, 'ok', JSON.stringify(last(lines)));
  assert.equal(lines.find(({ type }) => type === 'done')?.text, 'hello');
});

test(
  'a read-only job of any engine cannot change the workspace, and the next one can',
  rootOnly,
  async () => {
    const touch = [{ exec: 'touch /workspace/x; ls /workspace; echo "status $?"' }, DONE];
    const payload = (sandboxMode: 'read-only' | 'workspace-write') => ({
      payload: { prompt: JSON.stringify(touch), models: [{ id: 'fake' }], sandboxMode },
      sessionId: 'read-only',
    });
    const texts = (lines: Line[]) => lines.map(({ text }) => text ?? '').join('');
    const held = texts(await bench.run([], payload('read-only')));
    assert.match(held, /Read-only file system/);
    assert.doesNotMatch(held, /^x$/m);
    assert.match(texts(await bench.run([], payload('workspace-write'))), /^x$/m);
  },
);
