// C092: a limit that cannot be applied is a typed error, and nothing is started.
import assert from 'node:assert/strict';
import { execFileSync, spawn } from 'node:child_process';
import { existsSync, mkdirSync, readdirSync, readFileSync, rmdirSync } from 'node:fs';
import { join } from 'node:path';
import { type TestContext, test } from 'node:test';
import { readPids, writeValue } from '../../cgroups/files.ts';
import { createCall, createSlice, openTree, probe, type Tree } from '../../cgroups/index.ts';
import { CONTROLLERS, freshRoot, LIMITS, NOBODY, testTree, until } from '../cgroups/fixture.ts';
import { guestOnly } from './guest.ts';

const skip = guestOnly;

/** Puts a process that stays into a cgroup; it is ended and waited for after the test. */
async function occupy(t: TestContext, dir: string): Promise<void> {
  const child = spawn('sh', ['-c', 'echo 0 > "$1/cgroup.procs"; exec sleep 600', 'sh', dir]);
  const ended = new Promise((resolve) => child.on('exit', resolve));
  t.after(async () => {
    child.kill('SIGKILL');
    await ended;
  });
  await until('a process is in the cgroup', () => readPids(dir).includes(child.pid ?? -1));
}

function remountReadOnly(t: TestContext, dir: string): void {
  execFileSync('mount', ['--bind', dir, dir]);
  t.after(() => execFileSync('umount', [dir]));
  execFileSync('mount', ['-o', 'remount,bind,ro', dir]);
}

function assertNothingMade(tree: Tree, job: string): void {
  assert.equal(existsSync(join(tree.jobsPath, 'tenant', job)), false);
}

test('in a read-only slice no call is made (C092 a)', { skip }, async (t) => {
  const tree = await testTree(t);
  await createSlice(tree, 'tenant', {});
  await t.test('while it is read-only', async (inner) => {
    remountReadOnly(inner, join(tree.jobsPath, 'tenant'));
    const refused = { name: 'LimitError', control: 'cgroup', got: 'EROFS' };
    await assert.rejects(createCall(tree, 'tenant', 'job_1', LIMITS, NOBODY), refused);
    await assert.rejects(createSlice(tree, 'tenant', { pids: 10 }), { name: 'LimitError', got: 'EROFS' });
  });
  assertNothingMade(tree, 'job_1');
  assert.ok(await createCall(tree, 'tenant', 'job_1', LIMITS, NOBODY), 'and afterwards one is');
});

test('a controller that is taken away from the slices is missed by name (C092 b)', { skip }, async (t) => {
  const tree = await testTree(t);
  writeValue(join(tree.jobsPath, 'cgroup.subtree_control'), '-pids');
  const file = join(tree.jobsPath, 'tenant/pids.max');
  await assert.rejects(createSlice(tree, 'tenant', {}), {
    name: 'LimitError',
    control: 'pids',
    file,
    got: 'ENOENT',
  });
  await assert.rejects(createCall(tree, 'tenant', 'job_1', LIMITS, NOBODY), { name: 'LimitError' });
  assertNothingMade(tree, 'job_1');
});

test('a controller that is taken away from the calls is missed by name (C092 b)', { skip }, async (t) => {
  const tree = await testTree(t);
  await createSlice(tree, 'tenant', {});
  writeValue(join(tree.jobsPath, 'tenant/cgroup.subtree_control'), '-pids');
  await assert.rejects(createCall(tree, 'tenant', 'job_1', LIMITS, NOBODY), {
    name: 'LimitError',
    control: 'pids',
    got: 'ENOENT',
  });
  assertNothingMade(tree, 'job_1');
});

test('a process in the slice keeps its controllers off, and that is an error (C092 c)', {
  skip,
}, async (t) => {
  const tree = await testTree(t);
  await t.test('while it is there', async (inner) => {
    mkdirSync(join(tree.jobsPath, 'tenant'));
    await occupy(inner, join(tree.jobsPath, 'tenant'));
    await assert.rejects(createSlice(tree, 'tenant', {}), {
      name: 'LimitError',
      control: 'memory',
      got: 'EBUSY',
    });
    await assert.rejects(createCall(tree, 'tenant', 'job_1', LIMITS, NOBODY), { name: 'LimitError' });
  });
  assertNothingMade(tree, 'job_1');
});

test('a process in jobs keeps the tree from opening, and that is an error (C092 c)', { skip }, async (t) => {
  const root = freshRoot();
  await t.test('while it is there', async (inner) => {
    mkdirSync(join(root, 'jobs'), { recursive: true });
    await occupy(inner, join(root, 'jobs'));
    await assert.rejects(openTree({ root, controllers: CONTROLLERS }), {
      name: 'TreeError',
      code: 'not_enabled',
      errno: 'EBUSY',
    });
  });
  const tree = await testTree(t, root);
  tree.created = true;
  assert.ok(tree.controllers.includes('memory'));
});

test('the probe names a read-only mount', { skip }, async (t) => {
  const root = freshRoot();
  mkdirSync(root);
  t.after(() => rmdirSync(root));
  await t.test('while it is read-only', async (inner) => {
    remountReadOnly(inner, root);
    const { controls } = await probe({ delegated: root });
    assert.deepEqual([controls.memory.level, controls.kill.level], ['none', 'none']);
    assert.match(controls.memory.reason ?? '', /read-only mount \(EROFS\)/);
    assert.match(controls.memory.remedy ?? '', /writable/);
  });
});

test('the probe names the controllers that a parent does not hand down', { skip }, async (t) => {
  const parent = freshRoot();
  mkdirSync(join(parent, 'delegated'), { recursive: true });
  t.after(() => [join(parent, 'delegated'), parent].forEach((dir) => void rmdirSync(dir)));
  writeValue(join(parent, '../cgroup.subtree_control'), '+memory +pids +cpu');
  writeValue(join(parent, 'cgroup.subtree_control'), '+memory');
  const { controls } = await probe({ delegated: join(parent, 'delegated') });
  const levels = [
    controls.memory.level,
    controls.swap.level,
    controls.pids.level,
    controls.cpu.level,
    controls.kill.level,
  ];
  assert.deepEqual(levels, ['full', 'full', 'none', 'none', 'full']);
  assert.match(
    controls.pids.reason ?? '',
    new RegExp(`${parent}/cgroup.subtree_control does not hand pids down`),
  );
  assert.match(controls.pids.remedy ?? '', /Delegate=/);
});

test('a probe in a cgroup that it shares moves nothing, and says that processes are in the way', {
  skip,
}, async (t) => {
  const own = freshRoot();
  mkdirSync(own);
  t.after(() => rmdirSync(own));
  writeValue(join(own, '../cgroup.subtree_control'), '+memory +pids +cpu +io');
  const script = `import { probe } from ${JSON.stringify(import.meta.resolve('../../cgroups/index.ts'))};
    process.stdout.write(JSON.stringify(await probe()));`;
  const shell = 'echo 0 > "$1/cgroup.procs"; "$2" --input-type=module-typescript -e "$3"; exit $?';
  const report = JSON.parse(
    execFileSync('sh', ['-c', shell, 'sh', own, process.execPath, script], { encoding: 'utf8' }),
  );
  assert.equal(report.root, own);
  for (const name of ['memory', 'pids', 'cpu']) assert.equal(report.controls[name].level, 'none', name);
  const read = (file: string): string => readFileSync(join(own, file), 'utf8').trim();
  assert.deepEqual(
    [read('cgroup.type'), read('cgroup.subtree_control')],
    ['domain', ''],
    'nothing was enabled half',
  );
  assert.match(report.controls.memory.reason, /cannot be enabled .* \(EBUSY\): 2 processes sit in it/);
  assert.equal(report.controls.kill.level, 'full');
  assert.deepEqual(
    readdirSync(own, { withFileTypes: true }).filter((entry) => entry.isDirectory()),
    [],
  );
});
