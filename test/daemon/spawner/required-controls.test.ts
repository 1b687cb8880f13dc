import assert from 'node:assert/strict';
import { test } from 'node:test';
import { allNone, type ControlReport, type ProbeReport } from '../../../cgroups/index.ts';
import { enforcementReport, levelsOf, REQUIRED } from '../../../daemon/spawner/required-controls.ts';

const full: ControlReport = { level: 'full' };
const none: ControlReport = { level: 'none', reason: 'hybrid mode', remedy: 'boot otherwise' };
const probe = (controls: Partial<ProbeReport['controls']>): ProbeReport => ({
  hierarchy: 'unified',
  root: '/sys/fs/cgroup/x',
  kernel: '6.12.0',
  controls: { ...allNone('not asked', ''), ...controls },
});
const all = { memory: full, swap: full, pids: full, cpu: full, kill: full };
const sandbox = { uid: full, namespaces: full, seccomp: full };

test('strict runs jobs when every required control is full, whatever io and disk are', () => {
  const report = enforcementReport('strict', probe(all), { ...sandbox, disk: none });
  assert.deepEqual([report.refused, report.reason], [false, undefined]);
});

for (const name of REQUIRED) {
  for (const level of ['partial', 'none'] as const) {
    test(`strict refuses when ${name} is ${level}, and says so`, () => {
      const short = { level, reason: 'why', remedy: 'what' };
      const controls = { ...all, ...sandbox, [name]: short };
      const { uid, namespaces, seccomp, ...cgroups } = controls;
      const report = enforcementReport('strict', probe(cgroups), { uid, namespaces, seccomp });
      assert.deepEqual([report.refused, report.reason], [true, `${name} is ${level}: why`]);
      assert.equal(
        enforcementReport('best-effort', probe(cgroups), { uid, namespaces, seccomp }).refused,
        false,
      );
    });
  }
}

test('a control that nobody probed counts as missing', () => {
  assert.match(enforcementReport('strict', probe(all), {}).reason ?? '', /uid is unknown: not probed/);
});

test('the levels alone go into each end', () => {
  const levels = levelsOf(enforcementReport('best-effort', probe(all), sandbox));
  assert.deepEqual([levels.memory, levels.io, levels.uid], ['full', 'none', 'full']);
});
