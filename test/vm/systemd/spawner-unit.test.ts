import assert from 'node:assert/strict';
import { execFileSync } from 'node:child_process';
import { existsSync, readdirSync, readFileSync } from 'node:fs';
import { test } from 'node:test';
import type { ProbeReport } from '../../../cgroups/index.ts';
import { noSystemd, timeScale } from '../guest.ts';
import { installTrial, reportOf, systemctl } from './units.ts';

const skip = noSystemd;
const REPORT = '/run/stand-in-spawner.json';

interface Facts {
  pid: number;
  path: string;
  oomScoreAdj: string;
  foundMemory: string;
  controls: ProbeReport['controls'];
  swept: { killed: number; removed: number; leaked: string[] };
  sleepers: number[];
  sandbox: string;
}

const lives = (pid: number): boolean => existsSync(`/proc/${pid}`);

function directories(path: string): string[] {
  return readdirSync(path, { withFileTypes: true, recursive: true })
    .filter((entry) => entry.isDirectory())
    .map((entry) => `${entry.parentPath.slice(path.length)}/${entry.name}`)
    .sort();
}

test('under the shipped unit every limit is full, and a killed spawner restarts clean', {
  skip,
}, async (t) => {
  const unit = installTrial('djinnd-spawner', 'stand-in-spawner.ts', REPORT);
  t.after(() => systemctl('stop', unit));
  systemctl('start', unit);
  let facts = await reportOf<Facts>(unit, REPORT);

  await t.test('its own cgroup is the tree, and it sits in the supervisor leaf', () => {
    assert.equal(facts.path, `/sys/fs/cgroup/system.slice/${unit}`);
    assert.equal(
      readFileSync(`/proc/${facts.pid}/cgroup`, 'utf8').trim(),
      `0::/system.slice/${unit}/supervisor`,
    );
    assert.equal(systemctl('show', '-p', 'TasksMax', '--value', unit), 'infinity');
    assert.equal(facts.oomScoreAdj, '-900');
  });

  await t.test('memory, swap, pids, cpu, kill, freeze, events and tool-oom are full', () => {
    const { io, ...required } = facts.controls;
    for (const [name, control] of Object.entries(required))
      assert.deepEqual([name, control], [name, { level: 'full' }]);
    assert.equal(io.level, 'partial');
    assert.equal(facts.foundMemory, 'full', 'also before the tree is opened');
  });

  await t.test(
    'the directives allow the sandbox: namespaces, mounts and the drop to a user without rights',
    () => {
      assert.match(facts.sandbox, /^Uid:\t65534\t65534\t65534\t65534$/m);
      assert.match(facts.sandbox, /^CapBnd:\t0+$/m);
      assert.match(facts.sandbox, /^NoNewPrivs:\t1$/m);
    },
  );

  await t.test(
    'kill -9 of the main process, three times: nothing of its tree is left and it runs again',
    async () => {
      for (let round = 1; round <= 3; round++) {
        const before = facts;
        assert.equal(before.sleepers.length, 6);
        assert.deepEqual(before.sleepers.filter(lives), before.sleepers);
        process.kill(before.pid, 'SIGKILL');
        facts = await reportOf<Facts>(unit, REPORT, before.pid);
        assert.deepEqual(before.sleepers.filter(lives), [], `round ${round}`);
        assert.deepEqual(facts.swept.leaked, []);
        assert.equal(facts.controls.memory.level, 'full');
        const tree = [
          '/jobs',
          '/jobs/tenant',
          '/jobs/tenant/job_1',
          '/jobs/tenant/job_1/agent',
          '/jobs/tenant/job_1/tools',
        ];
        assert.deepEqual(directories(facts.path), [...tree, '/supervisor']);
        assert.equal(systemctl('show', '-p', 'NRestarts', '--value', unit), String(round));
        assert.equal(systemctl('is-active', unit), 'active');
      }
    },
  );

  await t.test('stopping it ends its jobs and removes the tree', () => {
    const start = performance.now();
    systemctl('stop', unit);
    assert.ok(performance.now() - start < 10_000 * timeScale);
    assert.deepEqual([facts.pid, ...facts.sleepers].filter(lives), []);
    assert.equal(existsSync(facts.path), false);
  });
});

test('systemd finds nothing wrong with the shipped units', { skip }, () => {
  const units = ['djinnd-spawner-trial', 'djinnd-trial'].map((name) => `/etc/systemd/system/${name}.service`);
  const present = units.filter(existsSync);
  assert.ok(present.length > 0);
  const verify = execFileSync('sh', ['-c', 'systemd-analyze verify "$@" 2>&1', 'sh', ...present], {
    encoding: 'utf8',
  });
  assert.deepEqual(
    verify.split('\n').filter((line) => line.includes('djinnd')),
    [],
  );
});
