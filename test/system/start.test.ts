// The parent itself: what it leaves after each kind of end, who may have the instance, what it does with a leftover.
import assert from 'node:assert/strict';
import { spawn, spawnSync } from 'node:child_process';
import { once } from 'node:events';
import { chmodSync, existsSync, mkdtempSync, readFileSync, rmdirSync, rmSync } from 'node:fs';
import { join } from 'node:path';
import { after, afterEach, test } from 'node:test';
import { setTimeout as sleep } from 'node:timers/promises';
import { startDaemon, type TestDaemon } from '../support/daemon.ts';
import { nodeAt, withCloneAt } from '../support/readable-clone.ts';
import { leftovers } from './leftovers.ts';

const instance = `start-${process.pid}`;
const bin = join(import.meta.dirname, '../../bin/djinnd');
const places = { runDir: `/run/djinnd-${instance}`, jobsRunDir: `/run/djinnd-${instance}-jobs` };
const skip = process.getuid?.() === 0 ? false : 'needs root';
let daemon: TestDaemon | null = null;

afterEach(async () => {
  await daemon?.close();
  daemon = null;
  assert.deepEqual(leftovers(places), []);
});

after(() => {
  for (const name of [instance, `${instance}-b`])
    rmSync(`/var/lib/djinnd-${name}`, { recursive: true, force: true });
});

async function until(what: string, condition: () => boolean): Promise<void> {
  for (let waited = 0; !condition(); waited += 50) {
    if (waited > 30_000) throw new Error(`waited in vain until ${what}`);
    await sleep(50);
  }
}

function groupsOf(pid: number): { uid: string; groups: string; capabilities: string; noNewPrivs: string } {
  const status = readFileSync(`/proc/${pid}/status`, 'utf8');
  const field = (name: string) => new RegExp(`^${name}:\\s*(.*?)\\s*$`, 'm').exec(status)?.[1] ?? '';
  return {
    uid: field('Uid'),
    groups: field('Groups'),
    capabilities: field('CapBnd'),
    noNewPrivs: field('NoNewPrivs'),
  };
}

test('the daemon runs as djinnd with its own group only, no capability and a minimal environment', {
  skip,
}, async () => {
  daemon = await startDaemon({
    instance,
    env: { CANARY_OF_THE_CALLER: 'x', DJINN_API_KEY: 'sk-canary-model-key' },
  });
  const serve = await daemon.processOf('serve');
  const [uid, gid] = spawnSync('sh', ['-c', 'id -u djinnd; id -g djinnd'], { encoding: 'utf8' })
    .stdout.trim()
    .split('\n');
  assert.deepEqual(groupsOf(serve), {
    uid: [uid, uid, uid, uid].join('\t'),
    groups: gid,
    capabilities: '0000000000000000',
    noNewPrivs: '1',
  });
  const names = (pid: number) =>
    readFileSync(`/proc/${pid}/environ`, 'utf8')
      .split('\0')
      .filter((entry) => entry !== '' && !entry.startsWith('DJINND_'))
      .map((entry) => entry.split('=')[0])
      .sort();
  assert.deepEqual(names(serve), [
    'DATABASE_URL',
    'DJINN_API_BASE',
    'DJINN_API_KEY',
    'DJINN_MODEL',
    'LANG',
    'PATH',
  ]);
  assert.deepEqual(names(await daemon.processOf('spawner')), ['LANG', 'PATH']);
});

test('only root and djinnd reach the database, and djinnd only as its own role', { skip }, async (t) => {
  daemon = await startDaemon({ instance });
  const seen = mkdtempSync('/tmp/djinnd-clone-');
  chmodSync(seen, 0o755);
  t.after(() => rmdirSync(seen));
  const connect = (user: string, role: string): string => {
    const group = spawnSync('id', ['-g', user], { encoding: 'utf8' }).stdout.trim();
    const identity = ['setpriv', `--reuid=${user}`, `--regid=${group}`, '--init-groups', '--'];
    const program = [nodeAt(seen), '-e', CONNECT, places.runDir, role];
    const [unshare, args] = withCloneAt(seen, [...identity, ...program]);
    const { stdout, stderr } = spawnSync(unshare, args, { encoding: 'utf8', env: { PATH: '/usr/bin:/bin' } });
    return stdout.trim() + stderr.trim();
  };
  assert.equal(connect('djinnd', 'djinnd_app'), 'connected');
  assert.match(connect('djinnd', 'djinnd_operator'), /Peer authentication failed/);
  assert.match(connect('djinnd', 'postgres'), /Peer authentication failed/);
  assert.match(connect('nobody', 'djinnd_app'), /EACCES/);
  assert.equal(connect('root', 'postgres'), 'connected');
});

const CONNECT = `
const pg = require('pg');
const [dir, user] = process.argv.slice(1);
const client = new pg.Client({ host: dir + '/pg', user, database: 'djinnd' });
client.on('error', () => {});
client.connect().then(() => console.log('connected'), (error) => console.log(error.code, error.message)).then(() => client.end());`;

test('a second start of the instance is refused and does not disturb the first', { skip }, async () => {
  daemon = await startDaemon({ instance });
  const second = await daemon.djinnd('start');
  assert.equal(second.code, 1);
  assert.match(second.stderr, /another djinnd runs on/);
  assert.equal((await fetch(`${daemon.url}/readyz`)).status, 200);
});

test('a setting that only the daemon uses is refused before anything is made', { skip }, () => {
  const name = `${instance}-b`;
  const env = { PATH: process.env.PATH, DJINND_INSTANCE: name, DJINND_LISTEN: '0.0.0.0:1' };
  const { status, stderr } = spawnSync(bin, ['start'], { env, encoding: 'utf8' });
  assert.equal(status, 2, stderr);
  assert.match(stderr, /DJINND_ALLOW_PLAIN_LISTEN=1/);
  assert.equal(existsSync(`/var/lib/djinnd-${name}`), false);
});

test('a second daemon on the spawner of a first one waits, says so and leaves its jobs alone', {
  skip,
}, async (t) => {
  daemon = await startDaemon({ instance });
  const key = await daemon.tenant(`t${Date.now()}`, '--engine', 'scripted');
  const steps = [{ sleepMs: 3000 }, { modelRequest: {} }];
  const job = daemon.job(key, { prompt: JSON.stringify({ steps }) });
  const first = await daemon.processOf('serve');
  const env = Object.fromEntries(
    readFileSync(`/proc/${first}/environ`, 'utf8')
      .split('\0')
      .filter((entry) => entry !== '')
      .map((entry) => [entry.slice(0, entry.indexOf('=')), entry.slice(entry.indexOf('=') + 1)]),
  );
  const [node = '', ...args] = readFileSync(`/proc/${first}/cmdline`, 'utf8').split('\0').slice(0, -1);
  const port = Number(new URL(daemon.url).port);
  const other = {
    DJINND_LISTEN: `127.0.0.1:${port - 10_000}`,
    DJINND_METRICS_LISTEN: `127.0.0.1:${port - 10_001}`,
  };
  // Where the first one sees the installation.
  const inside = ['--mount', `--target=${first}`, '--', 'setpriv'];
  const drop = ['--reuid=djinnd', '--regid=djinnd', '--init-groups', '--', node, ...args];
  const second = spawn('nsenter', [...inside, ...drop], {
    env: { ...env, ...other },
    cwd: '/',
    stdio: 'ignore',
  });
  t.after(() => second.kill('SIGKILL'));
  const ready = `http://${other.DJINND_LISTEN}/readyz`;
  for (let waited = 0, text = ''; !text.includes('works with another djinnd'); waited += 100) {
    assert.ok(waited < 30_000, text);
    await sleep(100);
    text = await fetch(ready).then(
      (answer) => answer.text(),
      () => '',
    );
  }
  const lines = await job;
  assert.equal(lines.at(-1)?.outcome, 'ok');
  assert.equal((await fetch(`${daemon.url}/readyz`)).status, 200);
  second.kill('SIGTERM');
  await once(second, 'exit');
});

test('kill -9 the parent: its children end by themselves, and the next start takes over', {
  skip,
}, async () => {
  const first = await startDaemon({ instance });
  const key = await first.tenant(`t${Date.now()}`, '--engine', 'scripted');
  process.kill(first.pid, 'SIGKILL');
  await until('nothing of it runs', () => leftovers(places).every((line) => !line.startsWith('process')));
  await first.close();
  daemon = await startDaemon({ instance });
  const lines = await daemon.job(key, { prompt: 'after the kill' });
  assert.equal(lines.at(-1)?.outcome, 'ok');
});

test('kill -9 everything at once: the leftovers are cleared by the next start', { skip }, async () => {
  const first = await startDaemon({ instance });
  const key = await first.tenant(`u${Date.now()}`, '--engine', 'scripted');
  const reading = first
    .job(key, { prompt: JSON.stringify({ steps: [{ sleepMs: 60_000 }] }) })
    .catch(() => null);
  await until(
    'the job runs',
    () => spawnSync('pgrep', ['-f', '/opt/djinn/engine/scripted.cjs']).status === 0,
  );
  const ours = spawnSync('pgrep', ['-f', `${places.runDir}/`], { encoding: 'utf8' })
    .stdout.trim()
    .split('\n')
    .map(Number);
  for (const pid of ours) process.kill(pid, 'SIGKILL');
  await reading;
  await first.close();
  daemon = await startDaemon({ instance });
  assert.match(await daemon.sql('select 1 as one'), /one/);
});

test('TERM while it starts, and a second signal while it stops, leave nothing', { skip }, async () => {
  for (const delayMs of [0, 150, 400, 900, 1600]) {
    const child = spawn(bin, ['start'], { env: startEnv(), stdio: 'ignore' });
    const ended = new Promise<number | null>((resolve) => child.once('exit', resolve));
    await until(
      'it holds the instance',
      () => existsSync(`${places.runDir}/start.lock`) || child.exitCode !== null,
    );
    await sleep(delayMs);
    child.kill('SIGTERM');
    await sleep(30);
    child.kill('SIGINT');
    child.kill('SIGTERM');
    await ended;
    // Before it has its own handlers the signal simply ends it; then only files may be there for the next start.
    const living = leftovers(places).filter((line) => !line.startsWith('/run/'));
    assert.deepEqual(living, [], `after ${delayMs} ms`);
  }
  daemon = await startDaemon({ instance });
});

function startEnv(): Record<string, string> {
  return {
    PATH: process.env.PATH ?? '/usr/bin:/bin',
    DJINND_INSTANCE: instance,
    DJINND_LISTEN: '127.0.0.1:0',
    DJINND_METRICS_LISTEN: '127.0.0.1:0',
    DJINND_ENFORCEMENT: 'best-effort',
  };
}

test('a port that is taken ends it with 1 and names the setting', { skip }, async () => {
  daemon = await startDaemon({ instance });
  const other = spawnSync(bin, ['start'], {
    env: { ...startEnv(), DJINND_INSTANCE: `${instance}-b`, DJINND_LISTEN: new URL(daemon.url).host },
    encoding: 'utf8',
  });
  assert.equal(other.status, 1);
  assert.match(other.stderr, /EADDRINUSE.*DJINND_LISTEN/);
  assert.deepEqual(leftovers({ runDir: `${places.runDir}-b`, jobsRunDir: `${places.runDir}-b-jobs` }), []);
});
