// Owns the embedded Postgres: makes its cluster, starts, watches and stops it. Unix socket only, no password anywhere.
// Root never writes below the cluster's directory: all that is done there is done as the cluster's own user.
import type { ChildProcess } from 'node:child_process';
import { chmodSync, chownSync, mkdirSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';
import pg from 'pg';
import type { Logger } from 'pino';
import { type Account, EMBEDDED_SUPERUSER, makeCluster, spawnAs } from './embedded-cluster.ts';
import { HBA, type IdentMap, identFile, libraryPath, nativeDir } from './embedded-files.ts';
import { clearLeftover, runningPostmaster } from './postmaster.ts';

/** Name of the one database. */
export const EMBEDDED_DATABASE = 'djinnd';
const MAX_CONNECTIONS = 80;

export interface EmbeddedOptions {
  /** The installation: the folder that holds node_modules. */
  appRoot: string;
  /** Holds `data`; made when missing, owned by `account`. */
  homeDir: string;
  /** Socket and access rules. `socketDir` is owned by `account` and opened to `clientGid` alone. */
  runDir: string;
  socketDir: string;
  /** Whom Postgres runs as; null: as whoever runs this. */
  account: Account | null;
  clientGid: number | null;
  identMap: IdentMap;
  log: Logger;
}

export interface ServerEnd {
  code: number | null;
  signal: NodeJS.Signals | null;
}

/** A running server. `ended` resolves when it exits, wanted or not. */
export class EmbeddedPostgres {
  readonly ended: Promise<ServerEnd>;
  #child: ChildProcess;

  constructor(child: ChildProcess) {
    this.#child = child;
    this.ended = new Promise((resolve) => {
      child.once('exit', (code, signal) => resolve({ code, signal }));
      child.once('error', () => resolve({ code: null, signal: null })); // never started; collect() keeps the reason
    });
  }

  /** Fast shutdown: open transactions are rolled back, everything is written. Immediate after `graceMs`. */
  async close(graceMs = 20_000): Promise<void> {
    for (const [signal, waitMs] of [
      ['SIGINT', graceMs],
      ['SIGQUIT', 5_000],
      ['SIGKILL', 5_000],
    ] as const) {
      if (this.#child.exitCode !== null || this.#child.signalCode !== null) return;
      this.#child.kill(signal);
      const timer = new AbortController();
      const gone = await Promise.race([
        this.ended.then(() => true),
        sleep(waitMs, false, { signal: timer.signal }).catch(() => false),
      ]);
      timer.abort();
      if (gone) return;
    }
  }
}

/** Starts the server, making the cluster and the database first when there are none. A leftover server is stopped. */
export async function startEmbedded(options: EmbeddedOptions): Promise<EmbeddedPostgres> {
  const native = nativeDir(options.appRoot);
  const dataDir = join(options.homeDir, 'data');
  const uid = options.account?.uid ?? process.getuid?.() ?? 0;
  prepareDirectories(options);
  if (runningPostmaster(dataDir, uid) !== null) {
    options.log.warn({ dataDir }, 'stopping the Postgres of an owner that was killed');
  }
  await clearLeftover(dataDir, uid);
  const libraries = libraryPath(native, join(options.runDir, 'pg-lib'));
  const env = {
    PATH: '/usr/bin:/bin',
    LANG: 'C',
    TZ: 'UTC',
    ...(libraries === null ? {} : { LD_LIBRARY_PATH: libraries }),
  };
  await makeCluster(options, options.account, native, env);
  const child = spawnAs(
    options.account,
    [join(native, 'bin/postgres'), ...serverArguments(options, dataDir)],
    env,
  );
  const output = collect(child, options.log);
  const server = new EmbeddedPostgres(child);
  await untilReady(options, server, output).catch(async (error: unknown) => {
    await server.close(0);
    throw error;
  });
  return server;
}

function prepareDirectories({
  homeDir,
  runDir,
  socketDir,
  account,
  clientGid,
  identMap,
}: EmbeddedOptions): void {
  for (const [dir, mode, gid] of [
    [homeDir, 0o700, account?.gid],
    [socketDir, clientGid === null ? 0o700 : 0o710, clientGid ?? account?.gid],
  ] as const) {
    mkdirSync(dir, { recursive: true, mode });
    if (account !== null) chownSync(dir, account.uid, gid ?? account.gid);
    chmodSync(dir, mode);
  }
  writeFileSync(join(runDir, 'pg_hba.conf'), HBA, { mode: 0o644 });
  writeFileSync(join(runDir, 'pg_ident.conf'), identFile(identMap), { mode: 0o644 });
}

function serverArguments({ runDir, socketDir }: EmbeddedOptions, dataDir: string): string[] {
  const settings = {
    listen_addresses: '',
    unix_socket_directories: socketDir,
    hba_file: join(runDir, 'pg_hba.conf'),
    ident_file: join(runDir, 'pg_ident.conf'),
    max_connections: MAX_CONNECTIONS,
    shared_buffers: '64MB',
    max_wal_size: '512MB',
    // One small database: no parallel readers, no replication.
    io_method: 'sync',
    max_logical_replication_workers: 0,
    jit: 'off',
    log_min_error_statement: 'panic',
    log_timezone: 'UTC',
    timezone: 'UTC',
  };
  return ['-D', dataDir, ...Object.entries(settings).flatMap(([name, value]) => ['-c', `${name}=${value}`])];
}

/** Hands the server's own log on (only what an operator must see is a warning) and keeps its tail for an error. */
function collect(child: ChildProcess, log: Logger): { tail: string } {
  const output = { tail: '' };
  const take = (text: string) => {
    output.tail = (output.tail + text).slice(-4000);
    for (const line of text.split('\n')) {
      if (line !== '')
        log[/ (FATAL|PANIC): (?! the database system is starting up)/.test(line) ? 'warn' : 'debug'](
          { postgres: line },
          'postgres',
        );
    }
  };
  child.stdout?.setEncoding('utf8').on('data', take);
  child.stderr?.setEncoding('utf8').on('data', take);
  child.on('error', (error) => take(`${error.message}\n`));
  return output;
}

async function untilReady(
  options: EmbeddedOptions,
  server: EmbeddedPostgres,
  output: { tail: string },
): Promise<void> {
  let ended: ServerEnd | null = null;
  void server.ended.then((end) => {
    ended = end;
  });
  for (let waited = 0; waited < 120_000; waited += 25) {
    if (ended !== null) throw new Error(`the embedded Postgres did not start: ${output.tail.trim()}`);
    if (await makeDatabase(options.socketDir)) return;
    await sleep(25);
  }
  throw new Error(`the embedded Postgres does not answer: ${output.tail.trim()}`);
}

/** True when the server answers; makes the database on its first start. */
async function makeDatabase(socketDir: string): Promise<boolean> {
  const client = new pg.Client({ host: socketDir, user: EMBEDDED_SUPERUSER, database: 'postgres' });
  client.on('error', () => {}); // a connection that breaks here is seen by the query that waits for it
  try {
    await client.connect();
  } catch (error) {
    const code = (error as { code?: string }).code;
    // ENOENT, ECONNREFUSED: not listening yet. 57P03: starting up or recovering.
    if (code === 'ENOENT' || code === 'ECONNREFUSED' || code === '57P03') return false;
    throw error;
  }
  try {
    const { rowCount } = await client.query('select 1 from pg_database where datname = $1', [
      EMBEDDED_DATABASE,
    ]);
    if (rowCount === 0) await client.query(`create database ${EMBEDDED_DATABASE}`);
    return true;
  } finally {
    await client.end();
  }
}
