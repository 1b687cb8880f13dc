// A spawner on directories and a cgroup of its own, with a client, for tests. Everything is gone after `close()`.
import { existsSync, mkdtempSync, readFileSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';
import { fileURLToPath } from 'node:url';
import { pino } from 'pino';
import { connectSpawner, type SpawnerClient } from '../../daemon/spawner/client.ts';
import type { EngineDefinition } from '../../daemon/spawner/engines.ts';
import { runSpawner, type Spawner, type SpawnerOptions } from '../../daemon/spawner/index.ts';
import type { JobLimits, StartParams } from '../../daemon/spawner/wire.ts';
import { plainLaunch } from './plain-launch.ts';

const PUPPET = fileURLToPath(new URL('./puppet.cjs', import.meta.url));
export const UNIFIED = '/sys/fs/cgroup/unified';

export type Step = Record<string, unknown>;
// biome-ignore lint/suspicious/noExplicitAny: tests look into lines of every type
type Field = any;
export type Line = {
  seq: number;
  attempt: number;
  jobId: string;
  ts: string;
  type: string;
  [field: string]: Field;
};

const engine = (name: string, argv: string[]): [string, EngineDefinition] => [
  name,
  { name, kind: 'command', argv, files: [], dir: '/' },
];

/** Programs of the plain launcher. */
export const PLAIN_ENGINES = new Map([
  engine('puppet', [process.execPath, PUPPET]),
  engine('exit7', [process.execPath, PUPPET, 'exit', '7']),
  engine('missing', ['/nonexistent/program']),
]);

export const LIMITS: JobLimits = {
  memoryBytes: 512 * 1024 ** 2,
  pids: 256,
  cpuPercent: 100,
  wallMs: 30_000,
  outputBytes: 1024 ** 3,
  diskBytes: 64 * 1024 ** 2,
};

export function makeDirs(): {
  root: string;
  stateDir: string;
  runDir: string;
  jobsRunDir: string;
  enginesDir: string;
} {
  const root = mkdtempSync(join(tmpdir(), 'djinnd-test-'));
  const at = (name: string) => join(root, name);
  return {
    root,
    stateDir: at('state'),
    runDir: at('run'),
    jobsRunDir: at('jobs'),
    enginesDir: at('engines.d'),
  };
}

/** A delegated cgroup's path on machines that have a hierarchy for it, else null. */
export function testCgroup(): string | null {
  if (existsSync(join(UNIFIED, 'cgroup.procs'))) return join(UNIFIED, `djinnd-test-${process.pid}`);
  if (existsSync('/sys/fs/cgroup/cgroup.procs')) return `/sys/fs/cgroup/djinnd-test-${process.pid}`;
  return null;
}

export function plainOptions(dirs: ReturnType<typeof makeDirs>): SpawnerOptions {
  const { stateDir, runDir, jobsRunDir, enginesDir } = dirs;
  return {
    ...{ stateDir, runDir, jobsRunDir, enginesDir },
    cgroupRoot: testCgroup(),
    enforcement: 'best-effort',
    daemonUser: { uid: process.getuid?.() ?? 0, gid: process.getgid?.() ?? 0 },
    log: pino({ level: process.env.TEST_LOG ?? 'silent' }),
    version: '0.0.0-test',
    timing: { graceMs: 500, sampleMs: 200, lingerMs: 2000 },
    parts: {
      launch: plainLaunch,
      engines: PLAIN_ENGINES,
      accountOf: async () => ({ user: 'root', uid: process.getuid?.() ?? 0, gid: process.getgid?.() ?? 0 }),
    },
  };
}

export class SpawnerBench {
  readonly dirs: ReturnType<typeof makeDirs>;
  readonly client: SpawnerClient;
  readonly spawner: Spawner | null;
  #sealed = new Set<string>();
  #count = 0;

  constructor(dirs: ReturnType<typeof makeDirs>, spawner: Spawner | null) {
    this.dirs = dirs;
    this.spawner = spawner;
    this.client = connectSpawner(join(dirs.runDir, 'spawner.sock'), pino({ level: 'silent' }));
    this.client.on('sealed', ({ jobId, attempt }) => this.#sealed.add(`${jobId}/${attempt}`));
  }

  async connected(): Promise<void> {
    for (let n = 0; n < 500 && !this.client.connected; n += 1) await sleep(10);
    if (!this.client.connected) throw new Error('no connection to the spawner');
  }

  params(steps: Step[], change: Partial<StartParams> = {}): StartParams {
    this.#count += 1;
    return {
      jobId: `job_t${process.pid}-${this.#count}`,
      attempt: 1,
      lastAttempt: true,
      tenantId: 'acme',
      sessionId: `ses_${this.#count}`,
      engine: 'puppet',
      limits: LIMITS,
      totals: {},
      network: 'none',
      payload: { prompt: JSON.stringify(steps), models: [{ id: 'fake' }] },
      ...change,
    };
  }

  /** Starts and goes. */
  async begin(steps: Step[], change: Partial<StartParams> = {}): Promise<StartParams> {
    const params = this.params(steps, change);
    await this.client.call('start', params);
    await this.client.call('go', { jobId: params.jobId, attempt: params.attempt });
    return params;
  }

  /** Runs an attempt to its end and returns its lines. */
  async run(steps: Step[], change: Partial<StartParams> = {}): Promise<Line[]> {
    return this.finish(await this.begin(steps, change));
  }

  async finish(params: StartParams, timeoutMs = 20_000): Promise<Line[]> {
    await this.waitSealed(params, timeoutMs);
    return this.lines(params);
  }

  async waitSealed(params: { jobId: string; attempt: number }, timeoutMs: number): Promise<void> {
    const key = `${params.jobId}/${params.attempt}`;
    const until = Date.now() + timeoutMs;
    while (!this.#sealed.has(key)) {
      if (Date.now() > until) throw new Error(`${key} was not sealed in ${timeoutMs} ms`);
      await sleep(5);
    }
  }

  spool(params: { jobId: string; attempt: number }): string {
    return join(this.dirs.stateDir, 'jobs', params.jobId, `${params.attempt}.ndjson`);
  }

  lines(params: { jobId: string; attempt: number }): Line[] {
    const text = readFileSync(this.spool(params), 'utf8');
    return text
      .split('\n')
      .slice(0, -1)
      .map((line) => JSON.parse(line) as Line);
  }

  /** Waits until a line of the running attempt satisfies the test. */
  async seen(params: StartParams, test: (line: Line) => boolean): Promise<void> {
    for (let n = 0; n < 1000; n += 1) {
      if (existsSync(this.spool(params)) && this.lines(params).some(test)) return;
      await sleep(10);
    }
    throw new Error(`the line did not come: ${readFileSync(this.spool(params), 'utf8').slice(0, 2000)}`);
  }

  async close(): Promise<void> {
    this.client.close();
    await this.spawner?.close();
    rmSync(this.dirs.root, { recursive: true, force: true });
  }
}

/** A spawner in this process. */
export async function startBench(
  change: Partial<SpawnerOptions> = {},
  dirs = makeDirs(),
): Promise<SpawnerBench> {
  const spawner = await runSpawner({ ...plainOptions(dirs), ...change });
  const bench = new SpawnerBench(dirs, spawner);
  await bench.connected();
  return bench;
}
