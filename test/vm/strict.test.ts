// What a tenant's job can and cannot do, over HTTP, with every required control enforced (strict mode).
import assert from 'node:assert/strict';
import { execFileSync } from 'node:child_process';
import { mkdtempSync, readdirSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { after, before, test } from 'node:test';
import { setTimeout as sleep } from 'node:timers/promises';
import type { FakeOpenAI } from '../../worker/index.ts';
import { endOf, startDaemon, startObedientModel, type TestDaemon, toolResult } from '../support/daemon.ts';
import { attemptScript, CGROUPS, OF_PROCESS, wrongOutcomes } from '../system/attempts.ts';
import { guestOnly } from './guest.ts';

const MIB = 1024 * 1024;
const REQUIRED = ['memory', 'swap', 'pids', 'cpu', 'kill', 'uid', 'namespaces', 'seccomp'];

let daemon: TestDaemon;
let model: FakeOpenAI;
let key: string;
let uid: number;
let engines: string;

/** An engine in one line of shell: cheap enough for a hundred jobs on an emulated machine. */
const SHELL_ENGINE = `read -r job
echo '{"type":"session","sessionId":"x","resumed":false,"engine":"shell","model":"none"}'
echo '{"type":"done","sessionId":"x","turns":0,"usage":{"inputTokens":0,"outputTokens":0,"totalTokens":0},"text":""}'`;

const steps = (...list: object[]) => ({ prompt: JSON.stringify({ steps: list }) });
const processesOf = (user: number): string[] => {
  try {
    return execFileSync('pgrep', ['-u', String(user), '-a'], { encoding: 'utf8' })
      .trim()
      .split('\n');
  } catch {
    return [];
  }
};

before(async () => {
  if (guestOnly) return;
  model = await startObedientModel();
  engines = mkdtempSync('/run/djinnd-test-engines-');
  const definition = { name: 'shell', kind: 'command', argv: ['/bin/sh', '-c', SHELL_ENGINE] };
  writeFileSync(join(engines, 'shell.json'), JSON.stringify(definition));
  daemon = await startDaemon({
    instance: 'strict',
    enforcement: 'strict',
    env: {
      DJINND_ENGINES_DIR: engines,
      DJINN_API_BASE: model.baseUrl,
      DJINN_MODEL: 'obedient',
      DJINN_API_KEY: 'sk-test',
    },
  });
  key = await daemon.tenant('one', '--engine', 'djinn', '--wall-ms', '120000', '--max-running', '4');
  const end = endOf(await daemon.job(key, { prompt: 'bash: true', sessionId: 'first' }));
  assert.equal(end.outcome, 'ok', JSON.stringify(end));
  const passwd = readFileSync('/etc/passwd', 'utf8');
  uid = Number(/^djt\d+:[^:]*:(\d+):.*djinnd tenant one/m.exec(passwd)?.[1]);
  assert.ok(uid >= 200_000, 'the tenant has a system user of its own');
});
after(async () => {
  if (guestOnly) return;
  assert.equal(await daemon.close(), 0);
  await model.stop();
  rmSync(engines, { recursive: true });
});

test('every required control reads full, in doctor, /readyz and each end', { skip: guestOnly }, async () => {
  const doctor = await daemon.djinnd('doctor');
  assert.equal(doctor.code, 0, doctor.stdout + doctor.stderr);
  const ready = (await (await fetch(`${daemon.url}/readyz`)).json()) as never as {
    enforcement: { controls: Record<string, { level: string }> };
  };
  const end = endOf(await daemon.job(key, { prompt: 'hello' })) as never as {
    enforcement: Record<string, string>;
  };
  for (const control of REQUIRED) {
    assert.equal(ready.enforcement.controls[control]?.level, 'full', control);
    assert.equal(end.enforcement[control], 'full', control);
  }
});

test('a job whose agent eats memory ends as oom', { skip: guestOnly }, async () => {
  await daemon.sql(`update tenants set wbb_engine='scripted' where id='one'`);
  const lines = await daemon.job(key, {
    ...steps({ allocate: { bytes: 512 * MIB } }, { sleepMs: 2000 }),
    limits: { memoryBytes: 128 * MIB },
  });
  const end = endOf(lines);
  assert.equal(end.outcome, 'oom', JSON.stringify(end));
  assert.ok(Number(end.evidence.agentOomKills) >= 1);
});

test('a tool over the memory limit fails with a result that says so, and the agent goes on', {
  skip: guestOnly,
}, async () => {
  await daemon.sql(`update tenants set wbb_engine='djinn' where id='one'`);
  const eat = `bash: python3 -c 'x = bytearray(${900 * MIB})' || perl -e '$x = "a" x ${900 * MIB}'`;
  const lines = await daemon.job(key, { prompt: eat, limits: { memoryBytes: 512 * MIB } });
  assert.match(toolResult(lines), /memory/i);
  const end = endOf(lines);
  assert.equal(end.outcome, 'ok', JSON.stringify(end));
  assert.ok(Number(end.evidence.oomKills) >= 1);
  assert.equal(Number(end.evidence.agentOomKills), 0);
});

test('a fork bomb is held at pids.max, ends at its timeout, and the next job of the tenant runs', {
  skip: guestOnly,
}, async () => {
  await daemon.sql(`update tenants set wbb_engine='scripted' where id='one'`);
  const lines = await daemon.job(key, {
    ...steps({ forkBomb: {} }, { sleepMs: 600_000 }),
    limits: { pids: 64, wallMs: 20_000 },
  });
  const end = endOf(lines);
  assert.equal(end.outcome, 'timeout', JSON.stringify(end));
  assert.ok(Number(end.evidence.pidsMaxHits) > 0, JSON.stringify(end.evidence));
  assert.ok(Number(end.evidence.pidsPeak) <= 64);
  assert.equal(endOf(await daemon.job(key, steps({ exec: { argv: ['/bin/true'] } }))).outcome, 'ok');
});

test('a detached child that ignores HUP is gone a second after end', { skip: guestOnly }, async () => {
  const lines = await daemon.job(
    key,
    steps({ spawnDetached: { argv: ['/bin/sleep', '4242'] } }, { sleepMs: 500 }),
  );
  assert.equal(endOf(lines).outcome, 'ok');
  await sleep(1000);
  assert.deepEqual(processesOf(uid), []);
});

test('the bash tool has the identity of the tenant and no privilege', { skip: guestOnly }, async () => {
  await daemon.sql(`update tenants set wbb_engine='djinn' where id='one'`);
  const status = toolResult(await daemon.job(key, { prompt: 'bash: cat /proc/self/status' }));
  const field = (name: string) => new RegExp(`^${name}:[ \\t]*(.*)$`, 'm').exec(status)?.[1]?.trim();
  assert.equal(field('Uid'), [uid, uid, uid, uid].join('\t'));
  assert.equal(field('Gid'), [uid, uid, uid, uid].join('\t'));
  assert.equal(field('Groups'), '');
  for (const set of ['CapInh', 'CapPrm', 'CapEff', 'CapBnd', 'CapAmb']) {
    assert.equal(field(set), '0000000000000000', set);
  }
  assert.equal(field('NoNewPrivs'), '1');
  assert.equal(field('Seccomp'), '2');
});

test('a tool can neither leave its group nor read its agent, whatever Yama allows (C141, C154, C161)', {
  skip: guestOnly || (process.arch !== 'x64' && 'the numbers of system calls in it are those of x64'),
}, async () => {
  const scope = '/proc/sys/kernel/yama/ptrace_scope';
  const list = [...OF_PROCESS('agent', 2), ...OF_PROCESS('init', 1), ...CGROUPS([process.pid, daemon.pid])];
  const prompt = `bash: exec /usr/bin/perl - <<'ATTEMPTS'\n${attemptScript(list)}ATTEMPTS`;
  const before = readFileSync(scope, 'utf8');
  for (const value of ['0', '1']) {
    writeFileSync(scope, value);
    assert.deepEqual(wrongOutcomes(list, toolResult(await daemon.job(key, { prompt }))), [], value);
  }
  writeFileSync(scope, before);
});

test('the bash tool sees only the allow-listed environment', { skip: guestOnly }, async () => {
  const env = toolResult(
    await daemon.job(key, { prompt: 'bash: env -0 | tr "\\0" "\\n" | cut -d= -f1 | sort' }),
  );
  const ofShell = ['PWD', 'SHLVL', '_'];
  const allowed = [
    'GIT_EDITOR',
    'HOME',
    'LANG',
    'LOGNAME',
    'PATH',
    'SHELL',
    'TERM',
    'TMPDIR',
    'USER',
    ...ofShell,
  ];
  const names = env.split('\n').filter((name) => /^\w+$/.test(name));
  assert.ok(names.includes('PATH'));
  assert.deepEqual(
    names.filter((name) => !allowed.includes(name)),
    [],
  );
});

test('100 jobs leave no cgroup, process, descriptor or temporary file', { skip: guestOnly }, async () => {
  await daemon.sql(`update tenants set wbb_engine='shell' where id='one'`);
  const spawner = await daemon.processOf('spawner');
  const serve = await daemon.processOf('serve');
  const run = async (count: number) => {
    const waiting = Array.from({ length: count }, () => ({ prompt: 'x' }));
    const lanes = Array.from({ length: 4 }, async () => {
      for (let body = waiting.pop(); body !== undefined; body = waiting.pop()) {
        assert.equal(endOf(await daemon.job(key, body)).outcome, 'ok');
      }
    });
    await Promise.all(lanes);
    await sleep(3000); // the last prune and the idle connections
  };
  const open = (pid: number) => readdirSync(`/proc/${pid}/fd`).length;
  const groups = () =>
    execFileSync('find', ['/sys/fs/cgroup', '-type', 'd', '-path', '*job_*'], { encoding: 'utf8' });
  const left = () => ({
    temporary: readdirSync('/tmp').sort(),
    runDirs: readdirSync(daemon.jobsRunDir).filter((name) => name.startsWith('job_')),
    spools: readdirSync(join(daemon.stateDir, 'jobs')),
  });
  await run(8); // pools and caches fill first
  const before = { spawner: open(spawner), serve: open(serve), ...left() };
  await run(100);
  const afterwards = left();
  assert.equal(groups(), '');
  assert.deepEqual(processesOf(uid), []);
  assert.deepEqual(afterwards.runDirs, []);
  assert.deepEqual(afterwards.spools, []);
  assert.deepEqual(afterwards.temporary, before.temporary);
  assert.ok(open(spawner) <= before.spawner + 1, `spawner: ${before.spawner} → ${open(spawner)} descriptors`);
  assert.ok(open(serve) <= before.serve + 2, `djinnd: ${before.serve} → ${open(serve)} descriptors`);
});
