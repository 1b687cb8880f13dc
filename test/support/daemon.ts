// A whole djinnd on an instance of its own, driven as its users drive it: the command line, SQL and HTTP.
import { execFile, spawn } from 'node:child_process';
import { mkdtemp, readFile, rm } from 'node:fs/promises';
import { createServer } from 'node:net';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';
import { promisify } from 'node:util';
import { type FakeOpenAI, startFakeOpenAI, toolCallChunk } from '../../worker/index.ts';

const execute = promisify(execFile);
/**
 * Emulated, about one Node process in twenty is ended by V8 itself, in its book-keeping of compiled code. That is the
 * emulator's; a command line that ends so there is run again.
 */
const EMULATOR_CRASH = 'Check failed: it->second.Size() > offset';

async function run(program: string, args: string[], options: { env: Record<string, string> }) {
  for (let tries = 1; ; tries += 1) {
    try {
      return await execute(program, args, options);
    } catch (error) {
      const crashed = String((error as { stderr?: string }).stderr).includes(EMULATOR_CRASH);
      if (!crashed || process.env.IN_VM !== '1' || tries === 4) throw error;
    }
  }
}

const bin = join(import.meta.dirname, '../../bin/djinnd');
const slow = process.env.IN_VM === '1' ? 10 : 1;

export interface Line extends Record<string, unknown> {
  type: string;
  seq: number;
  attempt: number;
  jobId: string;
}

export interface TestDaemon {
  url: string;
  metricsUrl: string;
  env: Record<string, string>;
  stateDir: string;
  runDir: string;
  jobsRunDir: string;
  /** The parent's process id; its children are database, spawner and daemon. */
  pid: number;
  log(): Promise<string>;
  djinnd(...args: string[]): Promise<{ code: number; stdout: string; stderr: string }>;
  sql(text: string): Promise<string>;
  /** Makes a tenant and gives a caller's key for it. */
  tenant(id: string, ...limits: string[]): Promise<string>;
  post(key: string, body: Record<string, unknown>, headers?: Record<string, string>): Promise<Response>;
  /** Posts a job and reads its stream to the end. */
  job(key: string, body: Record<string, unknown>): Promise<Line[]>;
  get(key: string, path: string): Promise<Response>;
  /** Process ids by the last word of their command line: `serve`, `spawner`. */
  processOf(command: 'serve' | 'spawner'): Promise<number>;
  untilReady(): Promise<void>;
  close(): Promise<number | null>;
}

export interface DaemonOptions {
  instance: string;
  enforcement?: 'strict' | 'best-effort';
  env?: Record<string, string>;
  /** False: do not wait until it takes jobs. */
  ready?: boolean;
}

export async function startDaemon(options: DaemonOptions): Promise<TestDaemon> {
  const [http, metrics] = await freePorts();
  const scratch = await mkdtemp(join(tmpdir(), 'djinnd-test-'));
  const logFile = join(scratch, 'log');
  const env: Record<string, string> = {
    PATH: process.env.PATH ?? '/usr/bin:/bin',
    HOME: '/root',
    DJINND_INSTANCE: options.instance,
    DJINND_LISTEN: `127.0.0.1:${http}`,
    DJINND_METRICS_LISTEN: `127.0.0.1:${metrics}`,
    DJINND_ENFORCEMENT: options.enforcement ?? 'best-effort',
    DJINND_LOG_LEVEL: 'info',
    ...options.env,
  };
  const { open } = await import('node:fs/promises');
  const log = await open(logFile, 'w');
  const child = spawn(bin, ['start'], { env, stdio: ['ignore', log.fd, log.fd] });
  const exited = new Promise<number | null>((resolve) => child.once('exit', resolve));
  await log.close();
  const url = `http://127.0.0.1:${http}`;
  const runDir = env.DJINND_RUN_DIR ?? `/run/djinnd-${options.instance}`;
  const headers = (key: string) => ({ authorization: `Bearer ${key}`, 'content-type': 'application/json' });

  const daemon: TestDaemon = {
    url,
    metricsUrl: `http://127.0.0.1:${metrics}`,
    env,
    stateDir: env.DJINND_STATE_DIR ?? `/var/lib/djinnd-${options.instance}`,
    runDir,
    jobsRunDir: env.DJINND_JOBS_RUN_DIR ?? `${runDir}-jobs`,
    pid: child.pid ?? 0,
    log: () => readFile(logFile, 'utf8'),
    djinnd: async (...args) => {
      try {
        return { code: 0, ...(await run(bin, args, { env })) };
      } catch (error) {
        const failed = error as { code: number; stdout: string; stderr: string };
        return { code: failed.code, stdout: failed.stdout, stderr: failed.stderr };
      }
    },
    sql: async (text) => (await run(bin, ['sql', text], { env })).stdout,
    tenant: async (id, ...limits) => {
      await run(bin, ['tenant', 'create', id, ...limits], { env });
      const { stdout } = await run(bin, ['key', 'create', '--tenant', id, '--json'], { env });
      return (JSON.parse(stdout) as { secret: string }).secret;
    },
    post: (key, body, extra = {}) =>
      fetch(`${url}/v1/jobs`, {
        method: 'POST',
        headers: { ...headers(key), ...extra },
        body: JSON.stringify(body),
      }),
    job: async (key, body) => {
      const response = await daemon.post(key, body);
      const text = await response.text();
      if (response.status !== 200) throw new Error(`POST /v1/jobs: ${response.status} ${text}`);
      return readLines(text);
    },
    get: (key, path) => fetch(`${url}${path}`, { headers: headers(key) }),
    processOf: async (command) => {
      const { stdout } = await execute('ps', ['-eo', 'pid=,args=']);
      const instance = (pid: number) => readFile(`/proc/${pid}/environ`, 'utf8').catch(() => '');
      for (const line of stdout.split('\n')) {
        const match = new RegExp(`^\\s*(\\d+) .*daemon/main\\.ts ${command}$`).exec(line);
        if (match === null) continue;
        const pid = Number(match[1]);
        if ((await instance(pid)).includes(`DJINND_RUN_DIR=${runDir}\0`)) return pid;
      }
      throw new Error(`no ${command} process of instance ${options.instance}`);
    },
    untilReady: async () => {
      for (const deadline = Date.now() + 60_000 * slow; Date.now() < deadline; await sleep(50 * slow)) {
        if (child.exitCode !== null)
          throw new Error(`djinnd start ended: ${await readFile(logFile, 'utf8')}`);
        const answer = await fetch(`${url}/readyz`).catch(() => null);
        if (answer?.status === 200) return;
      }
      throw new Error(`djinnd is not ready: ${(await readFile(logFile, 'utf8')).slice(-4000)}`);
    },
    close: async () => {
      child.kill('SIGTERM');
      const code = await exited;
      await rm(scratch, { recursive: true, force: true });
      return code;
    },
  };
  if (options.ready !== false) {
    try {
      await daemon.untilReady();
    } catch (error) {
      await daemon.close();
      throw error;
    }
  }
  return daemon;
}

export const readLines = (text: string): Line[] =>
  text
    .split('\n')
    .filter((line) => line !== '')
    .map((line) => JSON.parse(line) as Line);

export function endOf(lines: Line[]): Line & { outcome: string; evidence: Record<string, number | null> } {
  const ends = lines.filter(({ type }) => type === 'end');
  if (ends.length !== 1 || lines.at(-1) !== ends[0]) {
    throw new Error(`expected one end line, last: ${JSON.stringify(lines.slice(-3))}`);
  }
  return ends[0] as never;
}

/**
 * A model that does what the prompt says: `bash: COMMAND` becomes one call of the bash tool, and its result is
 * answered with "ok".
 */
export function startObedientModel(): Promise<FakeOpenAI> {
  return startFakeOpenAI(({ body }) => {
    const messages = body.messages as { role: string; content: unknown }[];
    const last = messages.findLastIndex(({ role }) => role === 'user');
    const prompt = String(messages[last]?.content ?? '');
    const answered = messages.slice(last).some(({ role }) => role === 'tool');
    if (prompt.startsWith('bash: ') && !answered) {
      return { sse: [toolCallChunk('bash', { command: prompt.slice(6) })] };
    }
    return { sse: [{ choices: [{ index: 0, delta: { content: 'ok' }, finish_reason: null }] }] };
  });
}

/** The text of the only tool result of a job. */
export function toolResult(lines: Line[]): string {
  const results = lines.filter(({ type }) => type === 'tool_result');
  if (results.length !== 1) throw new Error(`expected one tool result: ${JSON.stringify(lines.slice(-4))}`);
  return String(results[0]?.content);
}

async function freePorts(): Promise<[number, number]> {
  const servers = [createServer(), createServer()];
  const ports: number[] = [];
  for (const server of servers) {
    await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve));
    const address = server.address();
    ports.push(address !== null && typeof address === 'object' ? address.port : 0);
  }
  await Promise.all(servers.map((server) => new Promise((resolve) => server.close(resolve))));
  return [ports[0] ?? 0, ports[1] ?? 0];
}
