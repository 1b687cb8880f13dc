import assert from 'node:assert/strict';
import { existsSync, mkdirSync, mkdtempSync, readdirSync, readFileSync, rmSync, statSync } from 'node:fs';
import { dirname, join } from 'node:path';
import { test } from 'node:test';
import { createCall, createSlice, LimitError, removeCall, type Tree } from '../../cgroups/index.ts';
import { LIMITS, NOBODY, needsCgroup2, runIn, testCall, testTree } from './fixture.ts';

const read = (...parts: string[]): string => readFileSync(join(...parts), 'utf8').trim();

test('a call has two leaves, and nobody can make a cgroup below it', { skip: needsCgroup2 }, async (t) => {
  const { tree, call } = await testCall(t);
  assert.equal(call.path, join(tree.path, 'jobs/tenant/job_1'));
  assert.equal(read(call.path, 'cgroup.max.descendants'), '2');
  assert.equal(read(call.agentPath, 'cgroup.max.descendants'), '0');
  assert.equal(read(call.toolsPath, 'cgroup.max.descendants'), '0');
  for (const dir of [call.path, call.agentPath, call.toolsPath]) {
    assert.throws(() => mkdirSync(join(dir, 'more')), { code: 'EAGAIN' });
  }
});

test('only cgroup.procs of the call and of its tools belong to the tenant', {
  skip: needsCgroup2,
}, async (t) => {
  const { call } = await testCall(t);
  const owned: string[] = [];
  for (const dir of [dirname(call.path), call.path, call.agentPath, call.toolsPath]) {
    if (statSync(dir).uid !== 0) owned.push(dir);
    for (const name of readdirSync(dir)) if (statSync(join(dir, name)).uid !== 0) owned.push(join(dir, name));
  }
  assert.deepEqual([...new Set(owned)].sort(), [join(call.path, 'cgroup.procs'), call.toolsProcs].sort());
});

test('the tenant moves itself from the agent to the tools and nowhere else', {
  skip: needsCgroup2,
}, async (t) => {
  const { tree, call } = await testCall(t);
  await createSlice(tree, 'other', {});
  const other = await createCall(tree, 'other', 'job_2', LIMITS, NOBODY);
  const inner = [
    'try() { (echo 0 > "$1") 2>/dev/null && echo "$2 yes" || echo "$2 no"; }',
    `try ${tree.path}/cgroup.procs root`,
    `try ${tree.supervisorPath}/cgroup.procs supervisor`,
    `try ${call.agentProcs} agent`,
    `try ${call.path}/cgroup.freeze freeze`,
    `try ${call.path}/cgroup.kill kill`,
    `try ${call.path}/cgroup.max.descendants descendants`,
    'try "$TOOLS" tools',
    `mkdir ${call.path}/x 2>/dev/null && echo mkdir yes || echo mkdir no`,
  ].join('\n');
  const drop = 'exec setpriv --reuid 65534 --regid 65534 --clear-groups bash -c';
  const { output } = await runIn(call, `${drop} '${inner}'`).ended;
  const want = ['root', 'supervisor', 'agent', 'freeze', 'kill', 'descendants'].map((name) => `${name} no`);
  assert.deepEqual(output.trim().split('\n'), [...want, 'tools yes', 'mkdir no']);
  assert.deepEqual(await removeCall(other), { removed: true, tries: 1 });
});

test('a job id is used once at a time', { skip: needsCgroup2 }, async (t) => {
  const { tree, call } = await testCall(t);
  await assert.rejects(createCall(tree, 'tenant', 'job_1', LIMITS, NOBODY), {
    name: 'LimitError',
    got: 'EEXIST',
  });
  assert.ok(existsSync(call.agentProcs), 'the running call is untouched');
});

test('a call needs a slice, and finds it again when another call has taken it along', {
  skip: needsCgroup2,
}, async (t) => {
  const tree = await testTree(t);
  await assert.rejects(createCall(tree, 'tenant', 'job_1', LIMITS, NOBODY), {
    name: 'LimitError',
    control: 'cgroup',
  });
  await createSlice(tree, 'tenant', {});
  const first = await createCall(tree, 'tenant', 'job_1', LIMITS, NOBODY);
  await removeCall(first);
  assert.equal(existsSync(first.slicePath), false, 'the slice goes with its last call');
  const second = await createCall(tree, 'tenant', 'job_2', LIMITS, NOBODY);
  assert.ok(existsSync(second.path));
});

test('names that are more than one path component are refused', { skip: needsCgroup2 }, async (t) => {
  const tree = await testTree(t);
  for (const name of ['', '.', '..', '../x', 'a/b', 'a\0', 'x'.repeat(81)]) {
    await assert.rejects(createSlice(tree, name, {}), TypeError, JSON.stringify(name));
  }
});

test('limits that cannot hold are refused by name before anything is made', {
  skip: needsCgroup2,
}, async (t) => {
  const tree = await testTree(t);
  await createSlice(tree, 'tenant', {});
  const wrong = [
    { memoryBytes: Number.NaN },
    { memoryBytes: 0 },
    { memoryBytes: 1.5 },
    { pids: 0 },
    { pids: Number.POSITIVE_INFINITY },
    { cpuPercent: 0 },
    { cpuPercent: Number.NaN },
    { cpuWeight: 0 },
  ];
  for (const limits of wrong) {
    await assert.rejects(createCall(tree, 'tenant', 'job_1', { ...LIMITS, ...limits }, NOBODY), LimitError);
  }
  assert.equal(existsSync(join(tree.jobsPath, 'tenant/job_1')), false);
  await assert.rejects(createSlice(tree, 'tenant', { pids: Number.NaN }), LimitError);
});

test('on a tmpfs that poses as a cgroup no limit is believed and no interface file is made', async (t) => {
  const root = mkdtempSync('/dev/shm/djinnd-test-');
  t.after(() => rmSync(root, { recursive: true }));
  mkdirSync(join(root, 'jobs'));
  const tree: Tree = {
    path: root,
    jobsPath: join(root, 'jobs'),
    supervisorPath: join(root, 'supervisor'),
    controllers: ['memory', 'pids', 'cpu'],
    slices: new Map(),
    origin: null,
    created: false,
  };
  await assert.rejects(createSlice(tree, 'tenant', { memoryBytes: 2 ** 30 }), {
    name: 'LimitError',
    control: 'memory',
    file: join(root, 'jobs/tenant/memory.max'),
    got: 'ENOENT',
  });
  assert.deepEqual(readdirSync(join(root, 'jobs/tenant')), []);
});
