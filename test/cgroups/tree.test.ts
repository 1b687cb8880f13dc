import assert from 'node:assert/strict';
import { spawn } from 'node:child_process';
import { existsSync, mkdirSync, mkdtempSync, readdirSync, readFileSync, rmSync } from 'node:fs';
import { join } from 'node:path';
import { test } from 'node:test';
import { readPids } from '../../cgroups/files.ts';
import {
  closeTree,
  createCall,
  createSlice,
  expectJoin,
  openTree,
  sweepTree,
  TreeError,
} from '../../cgroups/index.ts';
import { CONTROLLERS, freshRoot, LIMITS, NOBODY, needsCgroup2, runIn, testTree, until } from './fixture.ts';

const ownCgroup = (): string => /^0::(.*)$/m.exec(readFileSync('/proc/self/cgroup', 'utf8'))?.[1] ?? '';

test('opening a tree moves this process to its supervisor leaf and closing puts it back', {
  skip: needsCgroup2,
}, async () => {
  const before = ownCgroup();
  const root = freshRoot();
  const tree = await openTree({ root, controllers: CONTROLLERS });
  assert.equal(ownCgroup().endsWith(`${root.split('/').at(-1)}/supervisor`), true, ownCgroup());
  assert.deepEqual(readPids(root), []);
  assert.equal(await closeTree(tree), true);
  assert.equal(ownCgroup(), before);
  assert.equal(existsSync(root), false);
});

test('expecting a join leaves this process where it is, and does nothing to a tree that is gone', {
  skip: needsCgroup2,
}, async () => {
  const root = freshRoot();
  const before = ownCgroup();
  const tree = await openTree({ root, controllers: CONTROLLERS });
  const inside = ownCgroup();
  await Promise.all([expectJoin(tree), expectJoin(tree)]);
  assert.equal(ownCgroup(), inside);
  assert.equal(await closeTree(tree), true);
  await expectJoin(tree);
  assert.equal(ownCgroup(), before);
});

test('every process of the delegated directory is moved, so that controllers can be enabled', {
  skip: needsCgroup2,
}, async (t) => {
  const root = freshRoot();
  mkdirSync(root);
  const child = spawn('sh', ['-c', 'echo 0 > "$1/cgroup.procs"; exec sleep 60', 'sh', root]);
  t.after(() => child.kill('SIGKILL'));
  await until('the child is in the directory', () => readPids(root).includes(child.pid ?? -1));
  const tree = await testTree(t, root);
  tree.created = true;
  assert.deepEqual(readPids(root), []);
  assert.ok(readPids(tree.supervisorPath).includes(child.pid ?? -1));
});

test('opening the same tree twice gives the same tree', { skip: needsCgroup2 }, async (t) => {
  const tree = await testTree(t);
  const again = await openTree({ root: tree.path, controllers: CONTROLLERS });
  assert.deepEqual(again.controllers, tree.controllers);
  assert.equal(again.created, false);
});

test('a directory on another file system is refused and nothing is made in it', async (t) => {
  const root = mkdtempSync('/dev/shm/djinnd-test-');
  t.after(() => rmSync(root, { recursive: true }));
  await assert.rejects(openTree({ root, controllers: CONTROLLERS }), (error) => {
    assert.ok(error instanceof TreeError);
    assert.equal(error.code, 'not_cgroup2');
    return true;
  });
  assert.deepEqual(readdirSync(root), []);
  await assert.rejects(openTree({ root: join(root, 'absent'), controllers: [] }), { code: 'not_cgroup2' });
});

test('a sweep kills what a predecessor left and removes its cgroups', { skip: needsCgroup2 }, async (t) => {
  const tree = await testTree(t);
  for (const tenant of ['a', 'b']) {
    await createSlice(tree, tenant, {});
    for (const job of ['job_1', 'job_2']) {
      const call = await createCall(tree, tenant, job, LIMITS, NOBODY);
      const run = runIn(call, 'setsid sleep 60 & sleep 60');
      await until('two sleepers run', () => readPids(call.agentPath).length >= 2);
      void run.ended;
    }
  }
  mkdirSync(join(tree.path, 'probe-1-x'));
  const swept = await sweepTree(tree);
  assert.ok(swept.killed >= 8, `killed ${swept.killed}`);
  assert.deepEqual({ removed: swept.removed, leaked: swept.leaked }, { removed: 3, leaked: [] });
  assert.deepEqual(
    readdirSync(tree.path, { withFileTypes: true })
      .filter((entry) => entry.isDirectory())
      .map((entry) => entry.name)
      .sort(),
    ['jobs', 'supervisor'],
  );
});
