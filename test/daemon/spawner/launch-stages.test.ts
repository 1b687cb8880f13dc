// Every stage of a launch that can fail is named, with its errno.
import assert from 'node:assert/strict';
import { mkdtempSync, rmSync, symlinkSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { type TestContext, test } from 'node:test';
import type { LaunchSpec } from '../../../daemon/spawner/launch.ts';
import { endOf } from '../../../daemon/spawner/launch-end.ts';
import { errnoInText, LaunchStatus } from '../../../daemon/spawner/launch-status.ts';
import { seccompFilter } from '../../../daemon/spawner/seccomp.ts';
import { launchFixture, rootOnly, TENANT } from './launch-fixture.ts';

async function stageOf(t: TestContext, spec: Partial<LaunchSpec>): Promise<string> {
  const { end } = await launchFixture(t).run(['/bin/true'], spec);
  assert.ok(end.kind === 'spawn_failed', JSON.stringify(end));
  assert.notEqual(end.message, '');
  return `${end.stage} ${end.errno}`;
}

const noCgroup = { agentProcs: '/nowhere/cgroup.procs', toolsProcs: '/etc/hosts', toolsEvents: '/etc/hosts' };

test('a cgroup that is not there fails the stage cgroup', rootOnly, async (t) => {
  assert.equal(await stageOf(t, { call: noCgroup }), 'cgroup ENOENT');
});

test('a cgroup that cannot be joined fails the stage cgroup', rootOnly, async (t) => {
  const call = { ...noCgroup, agentProcs: '/proc/version' };
  assert.match(await stageOf(t, { call }), /^cgroup E(ACCES|PERM|IO)$/);
});

test('a scratch size that the kernel refuses fails the stage mount', rootOnly, async (t) => {
  assert.match(await stageOf(t, { scratchBytes: -5 }), /^mount E/);
});

test('a workspace that is gone fails the stage sandbox', async (t) => {
  assert.equal(await stageOf(t, { workspaceDir: '/nowhere/at/all' }), 'sandbox ENOENT');
});

test('root, "leave as it is" and nonsense are no accounts', rootOnly, async (t) => {
  for (const uid of [0, -1, 0xffffffff, 2 ** 32, 1.5, Number.NaN]) {
    assert.equal(await stageOf(t, { account: { ...TENANT, uid } }), 'launcher EINVAL', String(uid));
    assert.equal(await stageOf(t, { account: { ...TENANT, gid: uid } }), 'launcher EINVAL', String(uid));
  }
});

test('an exit of the sandbox before the program was tried is the stage user', () => {
  const status = new LaunchStatus();
  status.push(
    '@sandbox\n{ "child-pid": 42 }\nsetpriv: setresuid failed: Operation not permitted\n{ "exit-code": 1 }\n',
  );
  const end = endOf({ status, execText: '', signal: null, wasKilled: false });
  assert.equal(end.kind === 'spawn_failed' && `${end.stage} ${end.errno}`, 'user EPERM');
});

test('a launcher that ends without a report is no success', () => {
  const end = endOf({ status: new LaunchStatus(), execText: 'start\n', signal: null, wasKilled: false });
  assert.deepEqual(end, { kind: 'exited', code: null, signal: null });
});

test('a session file that is a link or missing fails before anything is started', async (t) => {
  const dir = mkdtempSync(join(tmpdir(), 'djinnd-session-'));
  t.after(() => rmSync(dir, { recursive: true }));
  assert.equal(await stageOf(t, { sessionFile: join(dir, 'missing') }), 'launcher ENOENT');
  writeFileSync(join(dir, 'target'), '');
  symlinkSync('target', join(dir, 'link'));
  assert.equal(await stageOf(t, { sessionFile: join(dir, 'link') }), 'launcher ELOOP');
});

test('the status text is understood in any pieces', () => {
  const text =
    '@cgroup\n@mount\n@sandbox\n{ "child-pid": 42, "pid-namespace": 7 }\nsetpriv: Permission denied\n{ "exit-code": 3 }\n';
  for (let size = 1; size <= text.length; size += 1) {
    const status = new LaunchStatus();
    for (let at = 0; at < text.length; at += size) status.push(text.slice(at, at + size));
    assert.deepEqual([status.stage, status.initPid, status.exitCode], ['sandbox', 42, 3]);
    assert.equal(status.message, 'setpriv: Permission denied');
  }
  assert.equal(errnoInText('bwrap: Creating new namespace failed: Operation not permitted'), 'EPERM');
  assert.equal(errnoInText('something else'), 'EUNKNOWN');
});

test('the system call filter exists for x64 and arm64 and is well formed', () => {
  assert.equal(seccompFilter('riscv64'), null);
  for (const arch of ['x64', 'arm64']) {
    const filter = seccompFilter(arch);
    assert.ok(filter !== null && filter.length % 8 === 0 && filter.length / 8 < 4096);
    for (let at = 0; at < filter.length; at += 8) {
      const isJump = (filter.readUInt16LE(at) & 7) === 5;
      const reach = Math.max(filter.readUInt8(at + 2), filter.readUInt8(at + 3));
      assert.ok(!isJump || at / 8 + 1 + reach < filter.length / 8, 'no jump leaves the program');
    }
    assert.equal(filter.readUInt16LE(filter.length - 8), 6, 'it ends with a return');
  }
});

test(
  'keyrings, namespaces, mounts and typing into terminals are refused, ordinary work is not',
  rootOnly,
  async (t) => {
    const { run } = launchFixture(t);
    const call = (name: string, ...args: (number | string)[]) =>
      `printf '${name} '; perl -e 'print syscall(${args.join(',')}) == -1 ? $!{EPERM} ? "EPERM" : $!+0 : "worked", "\\n"'`;
    const x64 = [
      call('keyctl', 250, 0, -3, 0, 0, 0),
      call('unshare', 272, 0x10000000),
      call('clone-newuser', 56, '0x10000011', 0, 0, 0, 0),
      call('bpf', 321, 0, 0, 0),
      call('tiocsti', 16, 0, 0x5412, 0),
      call('getpid', 39),
    ];
    const { stdout } = await run(['/bin/sh', '-c', `${x64.join('; ')}; (echo pipes | tr a-z A-Z)`]);
    if (process.arch !== 'x64') return t.skip('the numbers above are those of x64');
    const refused = ['keyctl', 'unshare', 'clone-newuser', 'bpf', 'tiocsti'].map((name) => `${name} EPERM`);
    assert.deepEqual(stdout.trim().split('\n'), [...refused, 'getpid worked', 'PIPES']);
  },
);
