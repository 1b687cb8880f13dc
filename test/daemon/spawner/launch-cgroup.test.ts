// The launcher and a call's cgroups: joined before exec, tools can enter theirs, the kill of the call ends everything.
import assert from 'node:assert/strict';
import { readFileSync } from 'node:fs';
import { join } from 'node:path';
import { type TestContext, test } from 'node:test';
import {
  type CallGroup,
  createCall,
  createSlice,
  killCall,
  removeCall,
  waitEmpty,
} from '../../../cgroups/index.ts';
import { allowsCgroupNamespace } from '../../../daemon/spawner/cgroup-namespace.ts';
import { LIMITS, needsCgroup2, testTree } from '../../cgroups/fixture.ts';
import { launchFixture, TENANT, textOf } from './launch-fixture.ts';

const options = { skip: needsCgroup2 };
const INSIDE = '/run/djinn/cgroup';

async function tenantCall(t: TestContext): Promise<CallGroup> {
  const tree = await testTree(t);
  await createSlice(tree, 'tenant', {});
  return createCall(tree, 'tenant', 'job_1', LIMITS, TENANT);
}
const pidsIn = (leaf: string) =>
  readFileSync(join(leaf, 'cgroup.procs'), 'utf8').split('\n').filter(Boolean).map(Number);

test(
  'every process of a launch is in the agent’s group, and its tools enter theirs by themselves',
  options,
  async (t) => {
    const call = await tenantCall(t);
    const { start } = launchFixture(t);
    const script = `(echo 0 >${INSIDE}/tools.procs && exec sleep 20) & echo up; wait`;
    const launched = start(['/bin/sh', '-c', script], { call });
    await new Promise((resolve) => launched.stdout.once('data', resolve));
    for (let tries = 0; tries < 100 && pidsIn(call.toolsPath).length === 0; tries += 1) {
      await new Promise((resolve) => setTimeout(resolve, 20));
    }
    const program = launched.programPid() ?? 0;
    assert.ok(pidsIn(call.agentPath).includes(program));
    assert.equal(pidsIn(call.agentPath).length, 3, 'bubblewrap’s monitor, its init and the program');
    assert.equal(pidsIn(call.toolsPath).length, 1);
    killCall(call);
    assert.deepEqual(await launched.ended, { kind: 'exited', code: null, signal: 'SIGKILL' });
    assert.equal(await waitEmpty(call, { timeoutMs: 5000 }), true);
    await launched.close();
    assert.equal((await removeCall(call)).removed, true);
  },
);

test('from inside nothing else of the cgroup tree can be reached or changed', options, async (t) => {
  const call = await tenantCall(t);
  const { start } = launchFixture(t);
  const script = `
exec 2>/dev/null
echo "$(ls ${INSIDE} | tr '\\n' ' ')"
(echo 1 >${INSIDE}/tools.events) && echo written
mkdir ${INSIDE}/more && echo made
mount -t cgroup2 none /tmp && echo mounted
cat ${INSIDE}/tools.events | wc -l
cat /proc/self/cgroup | grep ^0::`;
  const launched = start(['/bin/sh', '-c', script], { call });
  launched.stdin.end();
  const [stdout] = await Promise.all([textOf(launched.stdout), launched.ended]);
  const [names, lines, group, ...more] = stdout.trim().split('\n');
  assert.equal(names?.trim(), 'tools.events tools.procs');
  assert.ok(Number(lines) > 0);
  if (allowsCgroupNamespace()) assert.equal(group, '0::/');
  assert.deepEqual(more, []);
  await launched.close();
  assert.equal(await waitEmpty(call, { timeoutMs: 5000 }), true);
  assert.equal((await removeCall(call)).removed, true);
});
