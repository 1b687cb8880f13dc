import assert from 'node:assert/strict';
import { existsSync, mkdirSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { test } from 'node:test';
import { readPids } from '../../cgroups/files.ts';
import { killCall, removeCall } from '../../cgroups/index.ts';
import { timeScale } from '../vm/guest.ts';
import { needsCgroup2, runIn, testCall, until } from './fixture.ts';

test('a call with thirty sleepers is gone soon after its kill (C082)', { skip: needsCgroup2 }, async (t) => {
  const { call } = await testCall(t);
  await runIn(call, 'for n in {1..30}; do setsid sleep 300 >/dev/null 2>&1 & done').ended;
  await until('thirty sleep', () => readPids(call.agentPath).length === 30);
  const start = performance.now();
  killCall(call);
  // At once, without waiting for `populated 0`: the first tries may be refused, and that is no failure.
  const { removed, tries } = await removeCall(call);
  t.diagnostic(`${tries} tries in ${(performance.now() - start).toFixed(1)} ms`);
  assert.equal(removed, true);
  assert.equal(existsSync(call.path), false);
  assert.ok(performance.now() - start < 5000 * timeScale);
});

test('a call that was not killed is killed by its removal', { skip: needsCgroup2 }, async (t) => {
  const { call } = await testCall(t);
  const run = runIn(call, 'echo up; exec sleep 300');
  await until('it is up', () => run.output() !== '');
  const { removed, tries } = await removeCall(call);
  assert.equal(removed, true);
  assert.ok(tries > 1);
  assert.equal((await run.ended).signal, 'SIGKILL');
});

test('cgroups that were nested inside a call go with it (C083)', { skip: needsCgroup2 }, async (t) => {
  const { call } = await testCall(t);
  writeFileSync(join(call.path, 'cgroup.max.descendants'), 'max');
  mkdirSync(join(call.path, 'child/grandchild'), { recursive: true });
  mkdirSync(join(call.path, 'other'));
  const run = runIn(
    { ...call, agentProcs: join(call.path, 'child/grandchild/cgroup.procs') },
    'echo up; exec sleep 300',
  );
  await until('it is up', () => run.output() !== '');
  assert.equal((await removeCall(call)).removed, true);
  assert.equal(existsSync(call.path), false);
});

test('removing twice is the same as removing once', { skip: needsCgroup2 }, async (t) => {
  const { call } = await testCall(t);
  assert.deepEqual(await removeCall(call), { removed: true, tries: 1 });
  assert.deepEqual(await removeCall(call), { removed: true, tries: 1 });
});
