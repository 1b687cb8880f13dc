import assert from 'node:assert/strict';
import { readFileSync } from 'node:fs';
import { join } from 'node:path';
import { test } from 'node:test';
import {
  createCall,
  createSlice,
  killCall,
  probe,
  readEvidence,
  readState,
  readUsage,
  waitEmpty,
} from '../../cgroups/index.ts';
import { killByFreezing } from '../../cgroups/kill.ts';
import { freshRoot, LIMITS, MIB, NOBODY, runIn, testCall, testTree, until } from '../cgroups/fixture.ts';
import { guestOnly, timeScale } from './guest.ts';

const skip = guestOnly;

test('the probe says full for every limit', { skip }, async () => {
  const report = await probe({ delegated: freshRoot() });
  assert.equal(report.hierarchy, 'unified');
  for (const [name, control] of Object.entries(report.controls)) {
    assert.deepEqual(
      [name, control.level, control.reason],
      [name, name === 'io' ? 'partial' : 'full', control.reason],
    );
  }
});

test('every limit of a call reads back as it was asked for', { skip }, async (t) => {
  const { tree, call } = await testCall(t, {
    memoryBytes: 200_000_001,
    pids: 64,
    cpuPercent: 150,
    cpuWeight: 50,
  });
  const read = (file: string): string => readFileSync(join(call.path, file), 'utf8').trim();
  assert.deepEqual(tree.controllers, ['memory', 'pids', 'cpu', 'io']);
  assert.equal(Number(read('memory.max')), Math.floor(200_000_001 / 4096) * 4096);
  assert.ok(Number(read('memory.high')) < Number(read('memory.max')));
  assert.equal(read('memory.swap.max'), '0');
  assert.equal(read('pids.max'), '64');
  assert.equal(read('cpu.max'), '150000 100000');
  assert.equal(read('cpu.weight'), '50');
  assert.equal(read('memory.oom.group'), '0');
  assert.equal(read('tools/memory.oom.group'), '1');
  assert.ok(Number(read('tools/memory.max')) < Number(read('memory.max')));
  assert.equal(read('tools/pids.max'), '48');
  const { io, ...others } = call.enforced;
  assert.equal(io, 'partial');
  assert.deepEqual([...new Set(Object.values(others))], ['full']);
  for (const [file, value] of Object.entries(call.applied)) assert.equal(read(file), value, file);
});

test("a tenant's totals are written anew for each call", { skip }, async (t) => {
  const tree = await testTree(t);
  const read = (file: string): string => readFileSync(join(tree.jobsPath, 'tenant', file), 'utf8').trim();
  await createSlice(tree, 'tenant', { memoryBytes: 512 * MIB, pids: 100, cpuPercent: 200 });
  assert.deepEqual(['memory.max', 'pids.max', 'cpu.max'].map(read), [
    String(512 * MIB),
    '100',
    '200000 100000',
  ]);
  const { applied } = await createSlice(tree, 'tenant', { pids: 50 });
  assert.deepEqual(['memory.max', 'pids.max', 'cpu.max'].map(read), ['max', '50', 'max 100000']);
  assert.deepEqual(applied, { 'memory.max': 'max', 'pids.max': '50', 'cpu.max': 'max 100000' });
});

test('a fork bomb is held at pids.max, and the next call can fork (C091)', { skip }, async (t) => {
  const { tree, call } = await testCall(t, { pids: 64 });
  runIn(call, ':(){ :|:& };:', 'tools');
  const agent = runIn(call, 'sleep 30 & for n in {1..20}; do sleep 0.05; done; echo forked');
  assert.match((await agent.ended).output, /forked/, 'the bomb in the tools leaves the agent its processes');
  assert.ok((readUsage(call).pids ?? 0) <= 64);
  killCall(call);
  assert.equal(await waitEmpty(call, { timeoutMs: 5000 * timeScale }), true);
  const evidence = readEvidence(call);
  assert.ok((evidence.pidsPeak ?? 0) <= 64, `peak ${evidence.pidsPeak}`);
  assert.ok((evidence.pidsMaxHits ?? 0) > 0);
  const next = await createCall(tree, 'tenant', 'job_2', LIMITS, NOBODY);
  assert.equal((await runIn(next, 'true | true | echo ok').ended).output, 'ok\n');
});

test('without cgroup.kill a fork bomb is ended by freezing it first', { skip }, async (t) => {
  const { call } = await testCall(t, { pids: 64 });
  runIn(call, ':(){ :|:& };:', 'tools');
  await until('it meets its limit', () => (readEvidence(call).pidsMaxHits ?? 0) > 20);
  killByFreezing(call.path);
  assert.equal(await waitEmpty(call, { timeoutMs: 1000 * timeScale }), true);
  assert.equal(readState(call).frozen, false);
});

test('threads of the agent itself are held by the limit of the whole call', { skip }, async (t) => {
  const { call } = await testCall(t, { pids: 20 });
  const { output } = await runIn(
    call,
    'n=0; while (sleep 30 &) 2>/dev/null && [ $n -lt 40 ]; do n=$((n+1)); done; echo $n',
  ).ended;
  killCall(call);
  await waitEmpty(call, { timeoutMs: 1000 * timeScale });
  const evidence = readEvidence(call);
  assert.equal(evidence.pidsPeak, 20, output);
  assert.ok((evidence.pidsMaxHits ?? 0) > 0);
});

test('a busy loop gets its share of a core', { skip }, async (t) => {
  const { call } = await testCall(t, { cpuPercent: 20 });
  const run = runIn(call, 'perl -e "1 while 1" & perl -e "1 while 1"');
  await new Promise((resolve) => setTimeout(resolve, 500 * timeScale));
  const start = { cpuUsec: readUsage(call).cpuUsec ?? 0, ms: performance.now() };
  await new Promise((resolve) => setTimeout(resolve, 500 * timeScale));
  const spent = ((readUsage(call).cpuUsec ?? 0) - start.cpuUsec) / 1000 / (performance.now() - start.ms);
  t.diagnostic(`${(spent * 100).toFixed(1)} % of a core`);
  assert.ok(spent > 0.1 && spent < 0.26, `${spent}`);
  assert.match(readFileSync(join(call.path, 'cpu.stat'), 'utf8'), /nr_throttled [1-9]/);
  killCall(call);
  assert.equal((await run.ended).signal, 'SIGKILL');
});

test('a call over its pids, cpu or memory does not slow the creation of the next one', {
  skip,
}, async (t) => {
  const { tree, call } = await testCall(t, { pids: 64, cpuPercent: 50 });
  runIn(call, ':(){ :|:& };:', 'tools');
  await new Promise((resolve) => setTimeout(resolve, 100 * timeScale));
  const start = performance.now();
  await createSlice(tree, 'other', {});
  const other = await createCall(tree, 'other', 'job_3', LIMITS, NOBODY);
  assert.equal((await runIn(other, 'echo ok').ended).output, 'ok\n');
  assert.ok(performance.now() - start < 500 * timeScale, `${performance.now() - start} ms`);
  killCall(call);
});
