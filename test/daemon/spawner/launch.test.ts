import assert from 'node:assert/strict';
import { readFileSync } from 'node:fs';
import { test } from 'node:test';
import { SANDBOX_ENV } from '../../../daemon/spawner/sandbox-args.ts';
import { launchFixture, OTHER_TENANT, processesOf, rootOnly, TENANT } from './launch-fixture.ts';

const NODE = '/opt/djinn/node';

const parentOf = (pid: number): number =>
  Number(/^PPid:\s*(\d+)$/m.exec(readFileSync(`/proc/${pid}/status`, 'utf8'))?.[1]);

test('a program is its tenant alone: no group, no capability, no new privileges', rootOnly, async (t) => {
  const { run } = launchFixture(t);
  const { stdout } = await run(['/bin/cat', '/proc/self/status']);
  const field = (name: string) => new RegExp(`^${name}:[ \\t]*(.*)$`, 'm').exec(stdout)?.[1]?.trim();
  for (const name of ['Uid', 'Gid'])
    assert.equal(field(name)?.replaceAll('\t', ' '), Array(4).fill(TENANT.uid).join(' '));
  assert.equal(field('Groups'), '');
  for (const set of ['CapInh', 'CapPrm', 'CapEff', 'CapBnd', 'CapAmb'])
    assert.equal(field(set), '0'.repeat(16), set);
  assert.equal(field('NoNewPrivs'), '1');
  assert.equal(field('Seccomp'), '2');
  for (const set of ['SigBlk', 'SigIgn']) assert.equal(field(set), '0'.repeat(16), set);
});

test('the environment is the allow-list and nothing else (C142)', async (t) => {
  process.env.PLANTED_SECRET = 'canary';
  t.after(() => delete process.env.PLANTED_SECRET);
  const { run } = launchFixture(t);
  const { stdout } = await run([NODE, '-e', 'console.log(JSON.stringify(process.env))']);
  assert.deepEqual(JSON.parse(stdout), SANDBOX_ENV);
});

test('descriptors are exactly 0 to 4', async (t) => {
  const { run } = launchFixture(t);
  const { stdout } = await run(['/bin/sh', '-c', 'ls /proc/$$/fd; exit 0']);
  assert.deepEqual(stdout.trim().split('\n'), ['0', '1', '2', '3', '4']);
});

test('a program starts in its workspace with a plain umask and no inherited limits of the spawner', async (t) => {
  const { run } = launchFixture(t);
  const { stdout } = await run([
    '/bin/sh',
    '-c',
    'pwd; umask; ulimit -c; cat /proc/self/oom_score_adj; id -un',
  ]);
  assert.deepEqual(stdout.trim().split('\n').slice(0, 4), ['/workspace', '0022', '0', '200']);
});

test('only the sandbox’s own processes are visible, so nobody else’s command line is (C150)', async (t) => {
  const { run } = launchFixture(t);
  const { stdout } = await run([
    '/bin/sh',
    '-c',
    'for pid in /proc/[0-9]*; do cat $pid/cmdline | tr "\\0\\n" "  "; echo; done',
  ]);
  const lines = stdout.trim().split('\n');
  assert.ok(lines.length <= 4, stdout);
  assert.ok(
    lines.every((line) => /^(bwrap|\/bin\/sh|sh|cat|tr|)/.test(line)),
    stdout,
  );
  assert.ok(!stdout.includes('--test') && !stdout.includes('daemon'), stdout);
});

test('a missing program is spawn_failed with ENOENT, one that cannot be executed with EACCES', async (t) => {
  const { run } = launchFixture(t);
  const missing = (await run(['/opt/djinn/nothing'])).end;
  assert.equal(missing.kind === 'spawn_failed' && `${missing.stage} ${missing.errno}`, 'exec ENOENT');
  const plain = (await run(['/etc/hosts'])).end;
  assert.equal(plain.kind === 'spawn_failed' && `${plain.stage} ${plain.errno}`, 'exec EACCES');
});

test('a program that exits with 127 or 126 by itself is no failed start', async (t) => {
  const { run } = launchFixture(t);
  for (const code of [127, 126, 1, 0]) {
    const { end } = await run(['/bin/sh', '-c', `exit ${code}`]);
    assert.deepEqual(end, { kind: 'exited', code, signal: null });
  }
});

test('fifty programs that exit without reading a large prompt end with their code (C100)', async (t) => {
  const { start } = launchFixture(t);
  const prompt = Buffer.alloc(8 * 1024 * 1024, 'p');
  const one = async () => {
    const launched = start(['/bin/sh', '-c', 'exit 7']);
    launched.stdin.end(prompt);
    assert.equal(await launched.running, true);
    assert.deepEqual(await launched.ended, { kind: 'exited', code: 7, signal: null });
    launched.stdout.destroy();
    launched.stderr.destroy();
    assert.deepEqual(await launched.close(), []);
  };
  for (let batch = 0; batch < 5; batch += 1) await Promise.all(Array.from({ length: 10 }, one));
});

test('a program sees the end of its input', async (t) => {
  const { run } = launchFixture(t);
  const { end, stdout } = await run(['/bin/sh', '-c', 'cat; echo over']);
  assert.equal(stdout, 'over\n');
  assert.equal(end.kind, 'exited');
});

test('TERM reaches the program itself and its own exit code comes back', async (t) => {
  const { start } = launchFixture(t);
  for (const [script, code] of [
    ['process.on("SIGTERM", () => process.exit(143)); console.log("up"); setInterval(() => {}, 1000)', 143],
    ['process.on("SIGTERM", () => process.exit(130)); console.log("up"); setInterval(() => {}, 1000)', 130],
    ['console.log("up"); setInterval(() => {}, 1000)', 143],
  ] as const) {
    const launched = start([NODE, '-e', script]);
    launched.stdout.once('data', () => launched.terminate());
    assert.deepEqual(await launched.ended, { kind: 'exited', code, signal: null });
    await launched.close();
  }
});

test('terminate before the program exists is kept for it', async (t) => {
  const { start } = launchFixture(t);
  const launched = start(['/bin/sleep', '30']);
  launched.terminate();
  assert.deepEqual(await launched.ended, { kind: 'exited', code: 143, signal: null });
  await launched.close();
});

test(
  'killAll takes children that were forked twice, have their own session and ignore HUP',
  rootOnly,
  async (t) => {
    const { start } = launchFixture(t);
    const detach = '(trap "" HUP TERM; setsid sleep 25 </dev/null >/dev/null 2>&1 &)';
    const launched = start(['/bin/sh', '-c', `${detach}; sleep 0.2; echo up; sleep 25`]);
    await new Promise((resolve) => launched.stdout.once('data', resolve));
    assert.ok(processesOf(TENANT.uid).length >= 2);
    launched.killAll();
    const end = await launched.ended;
    assert.equal(end.kind === 'exited' && end.code === 0, false);
    assert.deepEqual(processesOf(TENANT.uid), []);
    await launched.close();
  },
);

test('children that a program leaves behind end with it', rootOnly, async (t) => {
  const { run } = launchFixture(t);
  const { end } = await run(['/bin/sh', '-c', '(trap "" HUP; setsid sleep 25 >/dev/null 2>&1 &); exit 0']);
  assert.deepEqual(end, { kind: 'exited', code: 0, signal: null });
  assert.deepEqual(processesOf(TENANT.uid), []);
});

test('killAll at any moment of a launch leaves nothing and is no success', async (t) => {
  const { start } = launchFixture(t);
  for (let delayMs = 0; delayMs <= 24; delayMs += 3) {
    const launched = start(['/bin/sleep', '25']);
    setTimeout(() => launched.killAll(), delayMs);
    const end = await launched.ended;
    assert.ok(end.kind === 'exited' && end.code !== 0, JSON.stringify(end));
    assert.deepEqual(await launched.close(), []);
  }
});

test('a killed monitor does not leave its sandbox running', rootOnly, async (t) => {
  const { start } = launchFixture(t);
  const launched = start(['/bin/sh', '-c', 'echo up; sleep 25']);
  await new Promise((resolve) => launched.stdout.once('data', resolve));
  const program = launched.programPid();
  assert.ok(program !== null);
  process.kill(parentOf(parentOf(program)), 'SIGKILL');
  assert.deepEqual(await launched.ended, { kind: 'exited', code: null, signal: 'SIGKILL' });
  for (let tries = 0; tries < 50 && processesOf(TENANT.uid).length > 0; tries += 1)
    await new Promise((r) => setTimeout(r, 20));
  assert.deepEqual(processesOf(TENANT.uid), []);
  await launched.close();
});

test('another tenant’s processes and files are out of reach', rootOnly, async (t) => {
  const { start, run } = launchFixture(t);
  const launched = start(['/bin/sh', '-c', 'echo secret >mine; echo up; sleep 25']);
  await new Promise((resolve) => launched.stdout.once('data', resolve));
  const pid = launched.programPid();
  const script = `kill -9 -1; kill -0 ${pid} && echo reached; cat /proc/${pid}/environ; ls /workspace`;
  const { stdout } = await run(['/bin/sh', '-c', script], { account: OTHER_TENANT });
  assert.equal(stdout, '');
  assert.equal(launched.programPid(), pid, 'the first tenant still runs');
  launched.killAll();
  await launched.ended;
  await launched.close();
});
