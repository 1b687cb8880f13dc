import assert from 'node:assert/strict';
import { existsSync, mkdirSync, mkdtempSync, readdirSync, rmdirSync, rmSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { type TestContext, test } from 'node:test';
import { type ProbeReport, probe } from '../../cgroups/index.ts';
import { freshRoot, mount, needsCgroup2 } from './fixture.ts';

const hybrid = mount === '/sys/fs/cgroup/unified';

/** A tmpfs directory with all that a cgroup has, except the kernel behind it. */
function posing(t: TestContext): string {
  const dir = mkdtempSync('/dev/shm/djinnd-test-');
  t.after(() => rmSync(dir, { recursive: true }));
  writeFileSync(join(dir, 'cgroup.controllers'), 'cpuset cpu io memory pids\n');
  writeFileSync(join(dir, 'cgroup.subtree_control'), 'cpu io memory pids\n');
  writeFileSync(join(dir, 'cgroup.procs'), '');
  return dir;
}

/** A /proc whose process has these cgroups. */
function procWith(t: TestContext, cgroups: string): string {
  const dir = mkdtempSync('/dev/shm/djinnd-test-');
  t.after(() => rmSync(dir, { recursive: true }));
  mkdirSync(join(dir, 'self'));
  writeFileSync(join(dir, 'self/cgroup'), cgroups);
  return dir;
}

function assertExplained(report: ProbeReport): void {
  for (const [name, control] of Object.entries(report.controls)) {
    if (control.level === 'full') continue;
    assert.ok(
      (control.reason ?? '').length > 10 && (control.remedy ?? '').length > 10,
      `${name} says why and what to do`,
    );
  }
}

test('a tmpfs on which writes succeed is not taken for a cgroup', async (t) => {
  const dir = posing(t);
  const report = await probe({ cgroupRoot: dir, procRoot: procWith(t, '0::/\n') });
  assert.equal(report.hierarchy, 'none');
  assert.equal(report.root, null);
  for (const control of Object.values(report.controls)) assert.equal(control.level, 'none');
  assert.match(report.controls.memory.reason ?? '', /statfs type 0x1021994/);
  assertExplained(report);
  assert.deepEqual(readdirSync(dir).sort(), ['cgroup.controllers', 'cgroup.procs', 'cgroup.subtree_control']);
});

test('a delegated directory on a tmpfs is refused and left alone', async (t) => {
  const dir = posing(t);
  const report = await probe({ delegated: dir });
  assert.equal(report.root, null);
  assert.equal(report.controls.kill.level, 'none');
  assert.match(report.controls.kill.reason ?? '', /statfs type 0x1021994.*limit nothing/);
  assertExplained(report);
  assert.equal(readdirSync(dir).length, 3);
});

test('cgroup v1 alone is named, with the mend', async (t) => {
  const report = await probe({ cgroupRoot: posing(t), procRoot: procWith(t, '4:memory:/\n2:pids:/\n') });
  assert.equal(report.hierarchy, 'v1');
  assert.match(report.controls.pids.remedy ?? '', /unified_cgroup_hierarchy=1/);
  assertExplained(report);
});

test('an absent mount is named', async (t) => {
  const report = await probe({ cgroupRoot: '/nonexistent', procRoot: procWith(t, '') });
  assert.equal(report.hierarchy, 'none');
  assert.match(report.controls.memory.reason ?? '', /\/nonexistent does not exist/);
  assertExplained(report);
});

test('in hybrid mode the controllers are missing and kill, freeze and events are real', {
  skip: hybrid ? needsCgroup2 : 'needs a host in hybrid mode',
}, async () => {
  const report = await probe();
  assert.equal(report.hierarchy, 'hybrid');
  assert.equal(report.root?.startsWith('/sys/fs/cgroup/unified/'), true);
  for (const name of ['memory', 'swap', 'pids', 'cpu', 'io', 'tool-oom'] as const) {
    assert.equal(report.controls[name].level, 'none', name);
    assert.match(report.controls[name].reason ?? '', /hybrid mode/);
  }
  for (const name of ['kill', 'freeze', 'events'] as const)
    assert.deepEqual(report.controls[name], { level: 'full' });
  assertExplained(report);
});

test('a probe leaves nothing behind', { skip: needsCgroup2 }, async () => {
  const root = freshRoot();
  const report = await probe({ delegated: root });
  assert.equal(report.root, root);
  assert.equal(existsSync(root), false);
  mkdirSync(root);
  await probe({ delegated: root });
  assert.deepEqual(
    readdirSync(root, { withFileTypes: true }).filter((entry) => entry.isDirectory()),
    [],
  );
  rmdirSync(root);
});
