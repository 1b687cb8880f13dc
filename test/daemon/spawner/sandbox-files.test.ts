// What a program can reach of files, descriptors and memory.
import assert from 'node:assert/strict';
import {
  chmodSync,
  lstatSync,
  mkdirSync,
  mkdtempSync,
  readFileSync,
  rmSync,
  statSync,
  symlinkSync,
  writeFileSync,
} from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { test } from 'node:test';
import { makeWorkspace } from '../../../daemon/spawner/job-directories.ts';
import { launchFixture, OTHER_TENANT, rootOnly, TENANT } from './launch-fixture.ts';

const NODE = '/opt/djinn/node';
const shell = (script: string) => ['/bin/sh', '-c', script];

test('/tmp, /dev/shm and the home share one limit in bytes', rootOnly, async (t) => {
  const { run } = launchFixture(t);
  const script = `
for place in /tmp /dev/shm ~; do head -c 900000 /dev/zero >$place/part 2>/dev/null && echo "$place held" || echo "$place full"; done`;
  const { stdout } = await run(shell(script), { scratchBytes: 2 * 1024 * 1024 });
  assert.equal(stdout, '/tmp held\n/dev/shm held\n/home/agent full\n');
});

test('/tmp has a limit in files', rootOnly, async (t) => {
  const { run } = launchFixture(t);
  const script =
    'made=0; for n in $(seq 200); do true >/tmp/$n || break; made=$n; done 2>/dev/null; echo $made';
  const { stdout } = await run(shell(script), { scratchInodes: 100 });
  assert.ok(Number(stdout) > 50 && Number(stdout) < 100, stdout);
});

test('nothing of the system can be written, and no set-uid bit counts', rootOnly, async (t) => {
  const { run } = launchFixture(t);
  const script = `
for place in / /usr /etc /opt/djinn /run /run/djinn /run/djinn/gw /dev /home /proc /sys /var; do : >$place/x && echo "$place open"; done
echo x >/etc/passwd && echo open; su -c id 2>/dev/null; mount -t tmpfs none /tmp && echo open; exit 0`;
  const { stdout } = await run(shell(`{ ${script}\n} 2>/dev/null`));
  assert.equal(stdout, '');
});

test('the machine’s users, configuration, homes and state are not there', async (t) => {
  const { run, stateDir } = launchFixture(t);
  const script = `cat /etc/passwd | wc -l; cat /etc/shadow /etc/gshadow; ls /root /var/lib /home ${stateDir} /sys /boot /srv`;
  const { stdout } = await run(shell(`{ ${script}; } 2>/dev/null`));
  assert.match(stdout, /^3\n\/home:\nagent\n$/);
});

test('the session so far can be read and neither written, cut, nor opened again', rootOnly, async (t) => {
  const { run, sessionFile } = launchFixture(t);
  const before = readFileSync(sessionFile, 'utf8');
  const script = `
const fs = require('node:fs');
const attempt = (name, work) => { try { work(); console.log(name, 'worked'); } catch (error) { console.log(name, error.code); } };
console.log(JSON.stringify(fs.readFileSync(4, 'utf8')));
attempt('write', () => fs.writeSync(4, 'forged'));
attempt('truncate', () => fs.ftruncateSync(4, 0));
attempt('chmod', () => fs.fchmodSync(4, 0o777));
attempt('reopen', () => fs.openSync('/proc/self/fd/4', 'r+'));`;
  const { stdout } = await run([NODE, '-e', script]);
  const [content, ...attempts] = stdout.trim().split('\n');
  assert.equal(JSON.parse(content as string), before);
  assert.deepEqual(attempts, ['write EBADF', 'truncate EINVAL', 'chmod EPERM', 'reopen EACCES']);
  assert.equal(readFileSync(sessionFile, 'utf8'), before);
});

/** What a child of `program` finds out about it. */
const spyOnParent = `
for file in environ mem maps auxv; do head -c 1 /proc/$PPID/$file >/dev/null 2>&1 && echo "$file read"; done
ls /proc/$PPID/fd >/dev/null 2>&1 && echo "fd listed"
cat /proc/$PPID/fd/4 >/dev/null 2>&1 && echo "fd opened"
exit 0`;

test(
  'a program’s own tools cannot read its memory, environment or descriptors (C141)',
  rootOnly,
  async (t) => {
    const { run } = launchFixture(t);
    const script = `console.log(require('node:child_process').spawnSync('/bin/bash', ['-c', ${JSON.stringify(spyOnParent)}]).stdout.toString())`;
    assert.equal((await run([NODE, '-e', script])).stdout.trim(), '');
    // The same search does find a program that can be read by its user.
    const readable = await run(shell(`/bin/bash -c '${spyOnParent}'; exit 0`));
    assert.match(readable.stdout, /environ read[\s\S]*fd listed/);
  },
);

test('a program’s own tools cannot open its debugger', async (t) => {
  const { run } = launchFixture(t);
  const script = `
const reach = () => new Promise((resolve) => {
  const socket = require('node:net').connect(9229, '127.0.0.1', () => { socket.destroy(); resolve('open'); });
  socket.on('error', ({ code }) => resolve(code));
});
(async () => {
  const { spawn, spawnSync } = require('node:child_process');
  spawnSync('/bin/kill', ['-USR1', String(process.pid)]);
  await new Promise((resolve) => setTimeout(resolve, 300));
  console.log(await reach());
  const child = spawn(process.execPath, ['-e', 'setTimeout(() => {}, 1e6); console.log(1)']);
  await require('node:events').once(child.stdout, 'data');
  child.kill('SIGUSR1');
  while (await reach() !== 'open') await new Promise((resolve) => setTimeout(resolve, 20));
  console.log('the same does open that of a Node without protection');
  process.exit();
})();`;
  const { stdout } = await run([NODE, '-e', script]);
  assert.equal(stdout, 'ECONNREFUSED\nthe same does open that of a Node without protection\n');
});

test('a workspace belongs to its tenant alone and its files outlive the job', rootOnly, async (t) => {
  const { run, stateDir } = launchFixture(t);
  await run(shell('umask 077; echo mine >file; chmod 777 .'));
  const leaf = join(stateDir, 'workspaces', TENANT.user, 's');
  const { stdout } = await run(shell('cat file'));
  assert.equal(stdout, 'mine\n');
  const stat = statSync(leaf);
  assert.deepEqual([stat.uid, stat.gid, stat.mode & 0o7777], [TENANT.uid, TENANT.gid, 0o700]);
  const parent = statSync(join(leaf, '..'));
  assert.deepEqual([parent.uid, parent.mode & 0o7777], [0, 0o711]);
});

test('links that a tenant plants in its workspace lead root nowhere (C151, C152)', rootOnly, async (t) => {
  const { run, stateDir } = launchFixture(t);
  const target = mkdtempSync(join(tmpdir(), 'djinnd-target-'));
  t.after(() => rmSync(target, { recursive: true }));
  mkdirSync(join(target, 'directory'));
  writeFileSync(join(target, 'directory', 'file'), 'untouched', { mode: 0o644 });
  chmodSync(target, 0o711);
  const links = ['gw', 'fs', 'tmp', 'home', '.git', 'model.sock'].map(
    (name) => `ln -s ${target}/directory ${name}`,
  );
  await run(shell(`${links.join('; ')}; ln -s ${target}/directory/file passwd; mkdir d; chmod 0 d`));
  const again = await run(shell('cat passwd gw/file 2>/dev/null; ls /workspace/gw/ 2>/dev/null; exit 0'));
  assert.equal(again.stdout, '', 'the target does not exist in the sandbox');
  const stat = lstatSync(join(target, 'directory', 'file'));
  assert.deepEqual([stat.uid, stat.mode & 0o7777], [0, 0o644]);
  assert.equal(readFileSync(join(target, 'directory', 'file'), 'utf8'), 'untouched');
  assert.ok(lstatSync(join(stateDir, 'workspaces', TENANT.user, 's', 'gw')).isSymbolicLink());
});

test('a workspace that is a link, a file or another tenant’s is refused', rootOnly, (t) => {
  const { stateDir } = launchFixture(t);
  const root = join(stateDir, 'workspaces');
  const ids = (sessionId: string) => ({ tenantId: 'a', sessionId });
  makeWorkspace(root, ids('one'), TENANT);
  assert.throws(() => makeWorkspace(root, ids('one'), OTHER_TENANT), /belongs to uid \d+, not to its tenant/);
  symlinkSync('/etc', join(root, 'a', 'two'));
  assert.throws(() => makeWorkspace(root, ids('two'), TENANT), /not a directory/);
  writeFileSync(join(root, 'a', 'three'), '');
  assert.throws(() => makeWorkspace(root, ids('three'), TENANT), /not a directory/);
  assert.equal(statSync('/etc').uid, 0);
  chmodSync(join(root, 'a'), 0o777);
  assert.throws(() => makeWorkspace(root, ids('four'), TENANT), /can be written by others/);
});
