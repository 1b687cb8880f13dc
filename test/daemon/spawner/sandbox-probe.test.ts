import assert from 'node:assert/strict';
import { chownSync, mkdirSync, mkdtempSync, readdirSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { type TestContext, test } from 'node:test';
import { execa } from 'execa';
import { allowsCgroupNamespace } from '../../../daemon/spawner/cgroup-namespace.ts';
import type { Launched } from '../../../daemon/spawner/launch.ts';
import { prepareSandbox } from '../../../daemon/spawner/sandbox.ts';
import { probeSandbox } from '../../../daemon/spawner/sandbox-probe.ts';
import { nodeAt, withCloneAt } from '../../support/readable-clone.ts';
import { isRoot, rootOnly } from './launch-fixture.ts';

function directories(t: TestContext, owner = process.getuid?.() ?? 0) {
  const base = mkdtempSync(join(tmpdir(), 'djinnd-probe-'));
  t.after(() => rmSync(base, { recursive: true }));
  const paths = { stateDir: join(base, 'state'), jobsRunDir: join(base, 'jobs') };
  for (const path of [base, ...Object.values(paths)]) {
    mkdirSync(path, { recursive: true, mode: 0o711 });
    if (isRoot) chownSync(path, owner, owner);
  }
  return paths;
}

test('as root every control of the sandbox is full but the disk', rootOnly, async (t) => {
  const paths = directories(t);
  const engines: [] = [];
  const { controls } = await prepareSandbox({
    ...paths,
    privileged: true,
    nodePath: process.execPath,
    workerPath: null,
    engines,
  });
  const levels = Object.fromEntries(Object.entries(controls).map(([name, { level }]) => [name, level]));
  assert.deepEqual(levels, {
    uid: 'full',
    namespaces: 'full',
    network: 'full',
    seccomp: 'full',
    disk: 'partial',
  });
  assert.match(controls.disk.reason ?? '', /workspace/);
  assert.deepEqual(readdirSync(paths.jobsRunDir), []);
  assert.deepEqual(readdirSync(paths.stateDir), ['runtime']);
});

test(
  'without root the sandbox works in a user namespace and says that one user stands for all',
  rootOnly,
  async (t) => {
    const paths = directories(t, 65534);
    const seen = join(paths.jobsRunDir, '../clone');
    mkdirSync(seen);
    const source = join(seen, 'daemon/spawner/sandbox.ts');
    const script = `
import { prepareSandbox } from ${JSON.stringify(source)};
const options = { ...${JSON.stringify(paths)}, privileged: false, nodePath: process.execPath, workerPath: null, engines: [] };
console.log(JSON.stringify((await prepareSandbox(options)).controls));`;
    const asNobody = ['setpriv', '--reuid', '65534', '--regid', '65534', '--clear-groups'];
    const program = [nodeAt(seen), '--input-type=module', '-e', script];
    const { stdout } = await execa(...withCloneAt(seen, [...asNobody, ...program]));
    const controls = JSON.parse(stdout);
    assert.equal(controls.uid.level, 'none');
    assert.match(controls.uid.reason, /all tenants share uid 65534/);
    if (controls.namespaces.level === 'none') {
      assert.match(controls.namespaces.reason, /no sandbox can be started \(sandbox: E/);
      return t.skip('user namespaces are refused on this machine');
    }
    assert.deepEqual(
      [controls.namespaces.level, controls.network.level, controls.disk.level],
      ['full', 'full', 'partial'],
    );
  },
);

test('where no sandbox can be started every control is none and the reason says at which stage', async (t) => {
  const launch = () =>
    ({
      stdin: { end() {} },
      stdout: (async function* () {})(),
      stderr: { resume() {} },
      ended: Promise.resolve({ kind: 'spawn_failed', stage: 'sandbox', errno: 'EPERM', message: 'refused' }),
      close: async () => [],
    }) as unknown as Launched;
  const paths = directories(t);
  const controls = await probeSandbox({ ...paths, launch, privileged: true, hasFilter: true });
  for (const { level, reason, remedy } of Object.values(controls)) {
    assert.equal(level, 'none');
    assert.match(reason ?? '', /sandbox: EPERM: refused/);
    assert.match(remedy ?? '', /root/);
  }
});

test('a cgroup namespace is left out where it would lock tools into the agent’s group', () => {
  const mount = (options: string) =>
    `30 23 0:26 / /sys/fs/cgroup rw,nosuid shared:4 - cgroup2 cgroup2 ${options}\n`;
  assert.equal(allowsCgroupNamespace(mount('rw')), true);
  assert.equal(allowsCgroupNamespace(mount('rw,nsdelegate,memory_recursiveprot')), false);
  assert.equal(allowsCgroupNamespace(''), true);
});
