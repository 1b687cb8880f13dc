// A tenant that tries to get out: to another user, another tenant, another group, the machine's files or the daemon's
// (C141, C146, C151, C152, C154, C155, C158, C161). A second tenant works beside it all the time and must notice nothing.
import assert from 'node:assert/strict';
import { execFileSync } from 'node:child_process';
import { existsSync, mkdtempSync, readFileSync, rmSync, statSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { after, before, test } from 'node:test';
import { setTimeout as sleep } from 'node:timers/promises';
import type { FakeOpenAI } from '../../worker/index.ts';
import {
  endOf,
  type Line,
  startDaemon,
  startObedientModel,
  type TestDaemon,
  toolResult,
} from '../support/daemon.ts';
import { removeUsers, uidOf } from '../support/tenant-users.ts';
import { inGuest, timeScale } from '../vm/guest.ts';
import * as attempts from './attempts.ts';
import { leftovers } from './leftovers.ts';
import { cancel, query } from './steps.ts';
import { groupsOf, listensOn, processesOf, stateOf } from './tenant-view.ts';

const tenants = { attacker: `ea${process.pid}`, victim: `ev${process.pid}` };
const VICTIM = { key: 0x646a0000 + process.pid, name: `victim-${process.pid}` };
const PTRACE_SCOPE = '/proc/sys/kernel/yama/ptrace_scope';
const skip = missing();
let daemon: TestDaemon;
let model: FakeOpenAI;
let key: string;
let victimKey: string;
let victimRuns: Promise<Line[]>;
let victimPids: number[];
/** Root's own files, which nothing that a job does may touch. */
let rootDir: string;

function missing(): string | false {
  if (process.getuid?.() !== 0) return 'needs root: tenants with users of their own';
  if (process.arch !== 'x64') return 'the numbers of system calls in it are those of x64';
  return existsSync('/usr/bin/perl') ? false : 'needs /usr/bin/perl, in which the attempts are written';
}

const workspace = (tenant: string, session: string) => join(daemon.stateDir, 'workspaces', tenant, session);
const scripted = (...argv: string[]) => ({ prompt: JSON.stringify({ steps: [{ exec: { argv } }] }) });
const bash = (script: string) => ({ prompt: `bash: ${script}` });
const perl = (list: readonly attempts.Attempt[]) =>
  bash(`exec /usr/bin/perl - <<'ATTEMPTS'\n${attempts.attemptScript(list)}ATTEMPTS`);
const useEngine = (engine: string) =>
  query(daemon, 'update tenants set wbb_engine = $1 where id = $2', [engine, tenants.attacker]);

/** Everything that another tenant could reach if names were shared, and locks on what all sandboxes see. */
const VICTIM_SCRIPT = `name=${VICTIM.name}
for place in /tmp /dev/shm ~ /workspace; do echo here >$place/$name; done
perl -e 'shmget($_, 64, 01777), msgget($_, 01777), semget($_, 1, 01777) for ${VICTIM.key}; sleep 3000' &
/opt/djinn/node -e 'require("node:net").createServer((s) => s.end("here")).listen("\\0${VICTIM.name}")' &
for file in /tmp/$name /opt/djinn/djinn.cjs /usr/bin/env /etc/passwd /workspace /tmp; do flock --exclusive $file sleep 3000 & done
sleep 1; touch /workspace/ready; wait`;

before(async () => {
  if (skip !== false) return;
  rootDir = mkdtempSync(join(tmpdir(), 'djinnd-escape-'));
  execFileSync('/bin/sh', [
    '-c',
    'cd "$1"; mkdir dir; echo kept >file; echo kept >dir/file; chmod -R go+rX .',
    'sh',
    rootDir,
  ]);
  model = await startObedientModel();
  daemon = await startDaemon({
    instance: `escape-${process.pid}`,
    env: { DJINN_API_BASE: model.baseUrl, DJINN_MODEL: 'obedient' },
  });
  key = await daemon.tenant(tenants.attacker, '--engine', 'djinn', '--wall-ms', '300000');
  victimKey = await daemon.tenant(tenants.victim, '--engine', 'scripted');
  victimRuns = daemon.job(victimKey, { ...scripted('/bin/bash', '-c', VICTIM_SCRIPT), sessionId: 'beside' });
  victimRuns.catch(() => {}); // awaited by the last test
  while (!existsSync(join(workspace(tenants.victim, 'beside'), 'ready'))) await sleep(50 * timeScale);
  victimPids = processesOf(uidOf(tenants.victim));
  assert.ok(victimPids.length >= 9, 'the other tenant works');
});

after(async () => {
  if (skip !== false) return;
  assert.doesNotMatch(await daemon.log(), /"level":"(error|fatal)"/);
  assert.equal(await daemon.close(), 0);
  await model.stop();
  assert.deepEqual(leftovers(daemon), []);
  for (const dir of [daemon.stateDir, rootDir]) rmSync(dir, { recursive: true });
  removeUsers(Object.values(tenants));
});

/** Runs attempts in the bash tool and names those that did not end as they should. */
async function attempt(list: readonly attempts.Attempt[]): Promise<void> {
  await useEngine('djinn');
  const lines = await daemon.job(key, perl(list));
  const output = toolResult(lines);
  assert.equal(endOf(lines).outcome, 'ok', output);
  assert.deepEqual(attempts.wrongOutcomes(list, output), [], output.slice(-500));
}

/** Yama's setting may decide alone; in the guest, which is ours, both are tried. */
async function underBothPtraceScopes(work: () => Promise<void>): Promise<void> {
  if (!inGuest || !existsSync(PTRACE_SCOPE)) return await work();
  const before = readFileSync(PTRACE_SCOPE, 'utf8');
  for (const scope of ['0', '1']) {
    writeFileSync(PTRACE_SCOPE, scope);
    await work();
  }
  writeFileSync(PTRACE_SCOPE, before);
}

test('no system call gives a tool another user, a namespace, a mount, a device or a key', { skip }, () =>
  attempt(attempts.SYSTEM_CALLS),
);

test('the agent and the sandbox’s init can be neither read nor traced by a tool (C141, C154)', { skip }, () =>
  underBothPtraceScopes(async () => {
    const agent = toolResult(await daemon.job(key, bash('cat /proc/2/comm')));
    assert.match(agent, /node|MainThread/, 'the agent is process 2');
    await attempt([...attempts.OF_PROCESS('agent', 2), ...attempts.OF_PROCESS('init', 1)]);
  }),
);

test('a tool cannot open the debugger of its agent, with which it would be the agent', { skip }, async () => {
  const reach = `for try in 1 2 3 4 5 6 7 8 9 10; do (: </dev/tcp/127.0.0.1/9229) 2>/dev/null && echo open && break; sleep 0.${inGuest ? 9 : 1}; done`;
  for (const engine of ['scripted', 'djinn'] as const) {
    await useEngine(engine);
    const script = `kill -USR1 2; ${reach}; echo tried; /opt/djinn/node -e 'setTimeout(() => {}, 1e6)' >/dev/null 2>&1 & own=$!
sleep ${timeScale}; kill -USR1 $own; ${reach}`;
    const body = engine === 'djinn' ? bash(script) : scripted('/bin/bash', '-c', script);
    assert.equal(
      toolResult(await daemon.job(key, body))
        .split('\n[')[0]
        ?.trim(),
      'tried\nopen',
      engine,
    );
  }
  for (const command of ['serve', 'spawner'] as const) {
    const pid = await daemon.processOf(command);
    process.kill(pid, 'SIGUSR1');
    await sleep(500 * timeScale);
    assert.ok(!listensOn(pid, 9229), command);
  }
});

test('node, the worker, the system and the daemon’s own files cannot be written, moved, linked or found', {
  skip,
}, async () => {
  const runtime = join(daemon.stateDir, 'runtime');
  const before = stateOf(runtime);
  const { jobs } = (await (await daemon.get(victimKey, '/v1/jobs')).json()) as { jobs: { jobId: string }[] };
  const jobId = jobs[0]?.jobId ?? '';
  const own = [daemon.stateDir, daemon.runDir, daemon.jobsRunDir, rootDir, '/etc/djinnd'];
  const kept = [
    `jobs/${jobId}/1.ndjson`,
    `sessions/${tenants.victim}/beside.jsonl`,
    'uids.json',
    'postgres',
    'runtime',
  ];
  for (const name of ['jobs', 'sessions', 'uids.json'])
    assert.ok(existsSync(join(daemon.stateDir, name)), name);
  const paths = [...own, ...kept.map((name) => join(daemon.stateDir, name))];
  await attempt([
    ...attempts.MACHINE_FILES,
    ...paths.map((path): attempts.Attempt => [`find ${path}`, `lstat('${path}')`, /^ENOENT$/]),
  ]);
  assert.deepEqual(stateOf(runtime), before);
});

test('a tool has three descriptors and no other', { skip }, async () => {
  for (const engine of ['scripted', 'djinn'] as const) {
    await useEngine(engine);
    const list = 'ls /proc/$$/fd; true'; // a shell that has a child to wait for, or ls would look at its own
    const body = engine === 'djinn' ? bash(list) : scripted('/bin/sh', '-c', list);
    assert.equal(toolResult(await daemon.job(key, body)).trim(), '0\n1\n2', engine);
  }
});

test('another tenant’s processes, files, memory, sockets and locks are not there (C154)', { skip }, () =>
  attempt(attempts.OTHER_TENANT({ pids: victimPids, ...VICTIM })),
);

test('a process stays in the group of its call, and takes no other into it (C161)', { skip }, async () => {
  await attempt(attempts.CGROUPS([...victimPids, daemon.pid, await daemon.processOf('spawner')]));
  const running = daemon.job(
    key,
    bash('sleep 1; (setsid sleep 5 &) ; echo 0 >/run/djinn/cgroup/tools.procs; sleep 4'),
  );
  const uid = uidOf(tenants.attacker);
  while (processesOf(uid, 'sleep').length < 2) await sleep(20 * timeScale);
  const groups = groupsOf(uid);
  endOf(await running);
  if (groups.length === 0) return; // no cgroup2 on this machine
  const foreign = groups.filter((group) => !group.includes(`/${tenants.attacker}/job_`));
  assert.deepEqual(foreign, []);
  assert.ok(groupsOf(uidOf(tenants.victim)).every((group) => group.includes(`/${tenants.victim}/job_`)));
});

test('no program of the machine changes a tool’s user (C155)', { skip }, async () => {
  const uid = uidOf(tenants.attacker);
  await useEngine('djinn');
  const script = `cp /bin/bash own-bash; chmod 6755 own-bash; cp /usr/bin/env own-env; setcap cap_setuid+ep own-env
gain() { name=$1; shift; echo "$name: $("$@" 2>/dev/null </dev/null | tail -1)"; }
gain su su -c 'id -u'; gain 'su agent' su agent -c 'id -u'; gain sudo sudo -n id -u; gain pkexec pkexec id -u
gain newgrp newgrp root -c 'id -g'; gain sg sg root -c 'id -g'; gain runuser runuser -u root -- id -u
gain setpriv setpriv --reuid 0 --regid 0 --clear-groups id -u; gain unshare unshare -Ur id -u
gain nsenter nsenter -t 1 -a id -u; gain chroot chroot / id -u; gain systemd-run systemd-run --user --pipe id -u
gain bwrap bwrap --ro-bind / / --unshare-user --uid 0 id -u; gain mount mount -t tmpfs none /tmp
gain own-bash ./own-bash -p -c 'id -u; id -g'; gain own-env ./own-env setpriv --reuid 0 id -u
gain perl perl -e '$> = 0; $< = 0; print $>'; gain chfn chfn -f x; gain passwd passwd -d root
gain passwd-file sh -c 'echo x:0 >>/etc/passwd && echo 0'
echo '* * * * * id' | crontab - ; echo id | at now; touch -d '+1 hour' left
echo "self: $(id -u) $(id -g) $(id -G)"`;
  const output = toolResult(
    await daemon.job(key, { ...bash(`{ ${script}\n} 2>/dev/null`), sessionId: 'programs' }),
  );
  const gained = output.split('\n').filter((line) => / \d+$/.test(line) && !line.endsWith(` ${uid}`));
  assert.deepEqual(gained, []);
  assert.match(output, new RegExp(`^self: ${uid} ${uid} ${uid}$`, 'm'));
  assert.match(
    output,
    new RegExp(`^own-bash: ${uid}$`, 'm'),
    'a copy of bash runs, and its set-uid bit counts nothing',
  );
  const places = ['/var/spool', '/var/lib/systemd', '/run/user'].filter(existsSync);
  const left = execFileSync('find', [...places, '-user', String(uid)], { encoding: 'utf8' });
  assert.equal(left, '', 'nothing is left that runs later');
  assert.equal(statSync(join(workspace(tenants.attacker, 'programs'), 'own-bash')).uid, uid);
});

test('a tool that kills all it can ends its own job and no other (C154)', { skip }, async () => {
  await useEngine('djinn');
  for (const [script, outcome] of [
    ['kill -9 -1; sleep 60', 'failed'],
    ['kill -9 2; sleep 60', 'failed'],
    ['kill -STOP 2; sleep 600', 'timeout'],
    ['kill -TERM 1; kill -9 1; echo alive', 'ok'],
  ] as const) {
    const lines = await daemon.job(key, { ...bash(script), limits: { wallMs: 4000 * timeScale } });
    assert.equal(endOf(lines).outcome, outcome, `${script}: ${JSON.stringify(lines.slice(-3))}`);
    assert.deepEqual(processesOf(uidOf(tenants.attacker)), [], script);
  }
  assert.equal((await fetch(`${daemon.url}/readyz`)).status, 200);
});

test('links, pipes and swapped directories in a workspace lead root nowhere (C146, C151, C152, C158)', {
  skip,
}, async () => {
  const before = stateOf(rootDir);
  const plant = `for name in gw fs tmp shm home run model.sock session.jsonl spool AGENTS.md package.json .env .djinn \
    .ssh .gitconfig .bashrc .npmrc node_modules workspace; do ln -sfn ${rootDir}/dir $name; done
ln -s ${rootDir}/file link; ln -s / root; ln -s . loop; mkfifo fifo; mkdir dark; chmod 0 dark; truncate -s 1T sparse
mkdir -p .git/hooks; printf '#!/bin/sh\\nid >/workspace/witness\\n' >run-me; chmod 755 run-me
printf '[core]\\n fsmonitor = /workspace/run-me\\n hooksPath = /workspace/.git/hooks\\n[diff]\\n external = /workspace/run-me\\n' >.git/config
ln -s ../../run-me .git/hooks/post-checkout; chmod 6777 .; chmod 0 /tmp; rm -rf ~; ln /usr/bin/env hard 2>&1 | tail -1`;
  const swap = `while :; do mv d real; ln -s ${rootDir}/dir d; rm d; mv real d; done`;
  const session = (id: string) => ({ sessionId: id });
  await useEngine('djinn');
  await daemon.job(key, { ...bash(plant), ...session('planted') });
  const swapping = daemon.job(key, { ...bash(`mkdir d; touch d/file; ${swap}`), ...session('swapped') });
  // Claimed before the engine changes: it is to run on this one.
  for (let n = 0, runs = false; n < 400 && !runs; n++) {
    await new Promise((resolve) => setTimeout(resolve, 50));
    const { jobs } = (await (await daemon.get(key, '/v1/jobs')).json()) as {
      jobs: { sessionId: string; state: string }[];
    };
    runs = jobs.some(({ sessionId, state }) => sessionId === 'swapped' && state === 'running');
  }
  for (const engine of ['scripted', 'djinn'] as const) {
    await useEngine(engine);
    const body = engine === 'djinn' ? bash('ls -a; cat link gw/file') : scripted('/bin/ls', '-a');
    for (const id of ['planted', 'other']) {
      const end = endOf(await daemon.job(key, { ...body, ...session(id) }));
      assert.equal(end.outcome, 'ok', `${engine} ${id}: ${JSON.stringify(end)}`);
    }
  }
  await cancel(daemon, key, 'swapped');
  assert.equal(endOf(await swapping).outcome, 'cancelled');
  assert.equal(endOf(await daemon.job(key, { ...bash('ls -a'), ...session('swapped') })).outcome, 'ok');
  assert.deepEqual(stateOf(rootDir), before);
  const leaf = statSync(workspace(tenants.attacker, 'planted'));
  assert.deepEqual([leaf.uid, leaf.mode & 0o7777], [uidOf(tenants.attacker), 0o700]);
  assert.ok(
    !existsSync(join(workspace(tenants.attacker, 'planted'), 'witness')),
    'nobody runs git by itself',
  );
});

test('the other tenant has noticed nothing', { skip }, async () => {
  assert.deepEqual(processesOf(uidOf(tenants.victim)), victimPids);
  await cancel(daemon, victimKey, 'beside');
  assert.equal(endOf(await victimRuns).outcome, 'cancelled');
  assert.deepEqual(processesOf(uidOf(tenants.victim)), []);
});
