import assert from 'node:assert/strict';
import { test } from 'node:test';
import { readPids } from '../../cgroups/files.ts';
import { freezeCall, killCall, readState, removeCall, thawCall, waitEmpty } from '../../cgroups/index.ts';
import { killByFreezing } from '../../cgroups/kill.ts';
import { timeScale } from '../vm/guest.ts';
import { needsCgroup2, runIn, testCall, until } from './fixture.ts';

/** Processes that leave the session, the group, the parent and the pipes, and ignore what can be ignored. */
const RUNAWAYS = `
for n in 1 2 3 4 5; do setsid bash -c 'trap "" HUP TERM INT; (setsid sleep 300 >/dev/null 2>&1 &) ; exec sleep 300' >/dev/null 2>&1 & done
(setsid bash -c 'trap "" HUP TERM; while :; do sleep 300; done' >/dev/null 2>&1 &)
`;

test('a kill reaches setsid, double-forked and signal-ignoring processes of both leaves', {
  skip: needsCgroup2,
}, async (t) => {
  const { call } = await testCall(t);
  await runIn(call, `${RUNAWAYS} exit 0`).ended;
  await runIn(call, `${RUNAWAYS} exit 0`, 'tools').ended;
  await until(
    'the runaways run',
    () => readPids(call.agentPath).length >= 12 && readPids(call.toolsPath).length >= 12,
  );
  killCall(call);
  assert.equal(await waitEmpty(call, { timeoutMs: 1000 * timeScale }), true);
  assert.deepEqual([...readPids(call.agentPath), ...readPids(call.toolsPath)], []);
});

test('a frozen call is killed, too', { skip: needsCgroup2 }, async (t) => {
  const { call } = await testCall(t);
  runIn(call, 'sleep 300 & sleep 300');
  await until('two sleepers', () => readPids(call.agentPath).length >= 2);
  assert.equal(freezeCall(call), true);
  await until('it is frozen', () => readState(call).frozen);
  killCall(call);
  assert.equal(await waitEmpty(call, { timeoutMs: 1000 * timeScale }), true);
});

test('a frozen call does nothing until it is thawed', { skip: needsCgroup2 }, async (t) => {
  const { call } = await testCall(t);
  const run = runIn(call, 'while :; do echo tick; sleep 0.02; done');
  await until('it ticks', () => run.output().length > 0);
  freezeCall(call);
  await until('it is frozen', () => readState(call).frozen);
  await new Promise((resolve) => setTimeout(resolve, 50));
  const frozenAt = run.output().length;
  await new Promise((resolve) => setTimeout(resolve, 200));
  assert.equal(run.output().length, frozenAt);
  thawCall(call);
  await until('it ticks again', () => run.output().length > frozenAt);
  assert.equal(readState(call).frozen, false);
});

test('without cgroup.kill, freezing first lets nothing fork away', { skip: needsCgroup2 }, async (t) => {
  const { call } = await testCall(t, { pids: 200 });
  await runIn(call, `${RUNAWAYS} exit 0`).ended;
  // Each generation forks the next and exits: a list of pids is out of date as soon as it is read.
  runIn(call, 'hop() { (sleep 0.005; hop) & exit; }; for n in 1 2 3 4; do (hop) & done; sleep 300', 'tools');
  await until('they run', () => readPids(call.agentPath).length >= 12 && readPids(call.toolsPath).length > 2);
  killByFreezing(call.path);
  assert.equal(await waitEmpty(call, { timeoutMs: 1000 * timeScale }), true);
  assert.equal(readState(call).frozen, false);
});

test('killing a call that is gone does nothing', { skip: needsCgroup2 }, async (t) => {
  const { call } = await testCall(t);
  assert.equal((await removeCall(call)).removed, true);
  killCall(call);
  assert.equal(killByFreezing(call.path), 0);
  assert.equal(freezeCall(call), false);
  assert.equal(thawCall(call), false);
  assert.equal(await waitEmpty(call, { timeoutMs: 1000 }), true);
});
