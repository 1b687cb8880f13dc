import assert from 'node:assert/strict';
import { readdirSync, readFileSync } from 'node:fs';
import { test } from 'node:test';
import {
  type CallState,
  createCall,
  createSlice,
  killCall,
  onEvents,
  readEvidence,
  readUsage,
  removeCall,
  waitEmpty,
} from '../../cgroups/index.ts';
import { timeScale } from '../vm/guest.ts';
import { LIMITS, NOBODY, needsCgroup2, runIn, testCall, testTree, until } from './fixture.ts';

test('the listener hears of the first process and of the last', { skip: needsCgroup2 }, async (t) => {
  const { call } = await testCall(t);
  const states: CallState[] = [];
  const stop = onEvents(call, (state) => states.push(state));
  await runIn(call, 'sleep 0.3').ended;
  await until('both changes', () => states.length >= 2);
  stop();
  assert.deepEqual(
    states.map((state) => state.populated),
    [true, false],
  );
});

test('waiting for an empty call gives up when its time is over, and not before', {
  skip: needsCgroup2,
}, async (t) => {
  const { call } = await testCall(t);
  const run = runIn(call, 'echo up; exec sleep 300');
  await until('it is up', () => run.output() !== '');
  const start = performance.now();
  assert.equal(await waitEmpty(call, { timeoutMs: 100 }), false);
  assert.ok(performance.now() - start >= 99);
  killCall(call);
  assert.equal(await waitEmpty(call, { timeoutMs: 1000 * timeScale }), true);
});

test('a call whose last process is a zombie is empty and can be removed', {
  skip: needsCgroup2,
}, async (t) => {
  const { tree, call } = await testCall(t);
  // The parent leaves the call before its child ends, and never waits for it.
  const script = `sleep 0.3 & echo $$ > ${tree.supervisorPath}/cgroup.procs; echo $!; exec sleep 300`;
  const run = runIn(call, script);
  t.after(() => run.child.kill('SIGKILL'));
  await until('the child sleeps', () => /\d\n/.test(run.output()));
  assert.equal(await waitEmpty(call, { timeoutMs: 2000 * timeScale }), true);
  assert.match(readFileSync(`/proc/${run.output().trim()}/stat`, 'utf8'), / Z /);
  assert.deepEqual(await removeCall(call), { removed: true, tries: 1 });
});

test('counters that this kernel does not offer are null, never 0', { skip: needsCgroup2 }, async (t) => {
  const { tree, call } = await testCall(t);
  await runIn(call, 'for n in 1 2 3; do sleep 0.01; done').ended;
  await waitEmpty(call, { timeoutMs: 1000 * timeScale });
  const evidence = readEvidence(call);
  assert.ok((evidence.cpuUsec ?? 0) > 0, 'cpu time is counted without any controller');
  const wanted = (name: string): string => (tree.controllers.includes(name) ? 'number' : 'object');
  assert.equal(typeof evidence.memoryPeakBytes, wanted('memory'));
  assert.equal(typeof evidence.agentOomKills, wanted('memory'));
  assert.equal(typeof evidence.pidsMaxHits, wanted('pids'));
  assert.equal(typeof evidence.ioReadBytes, wanted('io'));
  assert.equal(typeof readUsage(call).pids, wanted('pids'));
});

test('a hundred calls leave no descriptor and no watch', { skip: needsCgroup2 }, async (t) => {
  const tree = await testTree(t);
  const open = (): number => readdirSync('/proc/self/fd').length;
  const oneCall = async (n: number): Promise<void> => {
    await createSlice(tree, 'tenant', {});
    const call = await createCall(tree, 'tenant', `job_${n}`, LIMITS, NOBODY);
    const stop = onEvents(call, () => {});
    assert.equal(await waitEmpty(call, { timeoutMs: 10 }), true);
    stop();
    assert.equal((await removeCall(call)).removed, true);
  };
  await oneCall(0);
  await new Promise((resolve) => setTimeout(resolve, 50));
  const before = open();
  for (let n = 1; n <= 100; n++) await oneCall(n);
  await new Promise((resolve) => setTimeout(resolve, 50));
  assert.equal(open(), before);
});
