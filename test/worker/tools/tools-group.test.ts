// bash in a real tools group. The memory test needs a kernel whose memory controller is on the unified hierarchy.
import assert from 'node:assert/strict';
import { execFileSync } from 'node:child_process';
import { existsSync, mkdirSync, readFileSync, rmdirSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { type TestContext, test } from 'node:test';
import { setTimeout as sleep } from 'node:timers/promises';
import { endBackground } from '../../../worker/tools/index.ts';
import { watchMemory } from '../../../worker/tools/memory-events.ts';
import { workspace } from './support.ts';

const root = readFileSync('/proc/self/mounts', 'utf8')
  .split('\n')
  .find((line) => line.split(' ')[2] === 'cgroup2')
  ?.split(' ')[1];
const controllers = root === undefined ? '' : readFileSync(join(root, 'cgroup.controllers'), 'utf8');
const noGroups = root === undefined || process.getuid?.() !== 0 ? 'needs root and a cgroup2 mount' : false;
const noMemory =
  noGroups || (controllers.includes('memory') ? false : 'needs the memory controller in cgroup2');

let count = 0;
function makeGroup(t: TestContext): { path: string; procs: string; events: string; pids: () => string[] } {
  const path = join(root as string, `djinn-tools-test-${process.pid}-${count++}`);
  mkdirSync(path);
  t.after(async () => {
    for (let round = 0; round < 50 && pids().length > 0; round++) {
      for (const pid of pids()) execFileSync('sh', ['-c', `kill -9 ${pid} 2>/dev/null || true`]);
      await sleep(20);
    }
    rmdirSync(path);
  });
  const procs = join(path, 'cgroup.procs');
  const pids = () => readFileSync(procs, 'utf8').split('\n').filter(Boolean);
  return { path, procs, events: join(path, 'memory.events'), pids };
}

test('a command runs in the tools group from its first instruction on', { skip: noGroups }, async (t) => {
  const { call } = workspace(t);
  const group = makeGroup(t);
  const outcome = await call(
    'bash',
    { command: 'cat /proc/self/cgroup /proc/$$/cgroup' },
    { toolsCgroup: group },
  );
  assert.equal(outcome.isError, false, outcome.content);
  assert.equal(outcome.content.match(/djinn-tools-test/g)?.length, 2);
});

test('a shell that cannot join the tools group runs nothing', async (t) => {
  const { call, path } = workspace(t);
  for (const procs of ['/nope/cgroup.procs', '/proc/self/stat']) {
    const outcome = await call(
      'bash',
      { command: `touch ${path('ran')}` },
      { toolsCgroup: { procs, events: '/nope' } },
    );
    assert.equal(outcome.isError, true);
    assert.match(outcome.content, /could not join the tools group, so nothing was run/);
    assert.equal(existsSync(path('ran')), false);
  }
});

test('C068 a timeout reaches a daemon that cut every tie, by the tools group', {
  skip: noGroups,
}, async (t) => {
  const { call } = workspace(t);
  const group = makeGroup(t);
  const daemon = "(setsid sh -c 'sleep 304 & sleep 304' >/dev/null 2>&1 &)";
  await call(
    'bash',
    { command: `${daemon}; sleep 0.3; sleep 300`, timeout_seconds: 1 },
    { toolsCgroup: group },
  );
  assert.deepEqual(group.pids(), []);
});

test('C066 a timeout spares what an earlier call left in the background', { skip: noGroups }, async (t) => {
  const { call, context } = workspace(t);
  const group = makeGroup(t);
  const server = "setsid sh -c 'while sleep 0.1; do :; done' >/dev/null 2>&1 & echo";
  await call('bash', { command: server }, { toolsCgroup: group });
  const outcome = await call('bash', { command: 'sleep 300', timeout_seconds: 1 }, { toolsCgroup: group });
  assert.match(outcome.content, /timed out/);
  assert.ok(group.pids().length > 0, 'the background process lives');
  await endBackground(context.background ?? []);
  assert.deepEqual(group.pids(), []);
});

test('a timeout spares a call that runs at the same time', { skip: noGroups }, async (t) => {
  const { call } = workspace(t);
  const group = makeGroup(t);
  const [slow, quick] = await Promise.all([
    call(
      'bash',
      { command: "(setsid sh -c 'sleep 2.5; echo daemon' &); sleep 4; echo whole" },
      { toolsCgroup: group },
    ),
    call('bash', { command: 'setsid sleep 300 & sleep 300', timeout_seconds: 1 }, { toolsCgroup: group }),
  ]);
  assert.equal(slow.content, 'daemon\nwhole\n');
  assert.match(quick.content, /timed out/);
});

test('C086 a memory kill is named, with exit code 137, every time', { skip: noMemory }, async (t) => {
  const { call } = workspace(t);
  writeFileSync(join(root as string, 'cgroup.subtree_control'), '+memory');
  const group = makeGroup(t);
  writeFileSync(join(group.path, 'memory.max'), String(24 * 1024 * 1024));
  writeFileSync(join(group.path, 'memory.oom.group'), '1');
  if (existsSync(join(group.path, 'memory.swap.max')))
    writeFileSync(join(group.path, 'memory.swap.max'), '0');
  for (let round = 0; round < 20; round++) {
    const command = 'echo before; head -c 70000000 /dev/zero | tail -c 60000000 >/dev/null; echo after';
    const outcome = await call('bash', { command }, { toolsCgroup: group });
    assert.equal(outcome.isError, true);
    assert.match(outcome.content, /^before\n\[out of memory: .*\]\n\[exit code 137: killed by SIGKILL\]$/);
  }
  const next = await call('bash', { command: 'echo alive' }, { toolsCgroup: group });
  assert.deepEqual(next, { content: 'alive\n', isError: false });
});

test('a memory kill counts for a call alone, and among calls at once for those whose shell was killed', (t) => {
  const { write } = workspace(t);
  const events = write('events', 'low 0\noom 0\noom_kill 3\noom_group_kill 0\n');
  const rise = (to: number) => writeFileSync(events, `oom ${to}\noom_kill ${to}\n`);
  const alone = watchMemory(events);
  assert.equal(alone.kills(true), 0);
  rise(5);
  assert.equal(alone.kills(false), 2);
  const second = watchMemory(events);
  rise(6);
  assert.deepEqual([alone.kills(false), alone.kills(true)], [0, 3]);
  assert.deepEqual([second.kills(false), second.kills(true)], [0, 1]);
  alone.close();
  second.close();
  const later = watchMemory(events);
  assert.equal(later.kills(false), 0);
  later.close();
  assert.equal(watchMemory('/nope').kills(true), 0);
});
