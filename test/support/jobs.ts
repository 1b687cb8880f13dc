// The jobs side on a real Postgres and a real spawner without a sandbox, and what tests ask of it.
import { setTimeout as sleep } from 'node:timers/promises';
import type { DatabaseOptions, Pool } from '../../daemon/db/pool.ts';
import { type Boss, startBoss } from '../../daemon/db/queue.ts';
import { createTenant, type TenantChange } from '../../daemon/db/tenants.ts';
import type { GatewayJob, GatewaySeam } from '../../daemon/jobs/gateway-seam.ts';
import { createJobs } from '../../daemon/jobs/index.ts';
import type { Caller, JobBody, Jobs, JobsDeps, JobView } from '../../daemon/jobs/types.ts';
import type { SpawnerClient } from '../../daemon/spawner/client.ts';
import { silentLog, type TestPostgres } from './postgres.ts';
import type { Line, Step } from './spawner.ts';

export const OPERATOR: Caller = { keyId: 'key_o', role: 'operator', tenantIds: [] };
export const callerOf = (...tenantIds: string[]): Caller => ({ keyId: 'key_c', role: 'caller', tenantIds });

/** Remembers who is open; the puppet asks no model. */
export class GatewayRecord implements GatewaySeam {
  readonly isOpen = new Map<string, GatewayJob>();
  readonly opened: string[] = [];
  async open(job: GatewayJob): Promise<void> {
    this.opened.push(`${job.jobId}/${job.attempt}`);
    this.isOpen.set(job.jobId, job);
  }
  async close(jobId: string): Promise<void> {
    this.isOpen.delete(jobId);
  }
}

export interface JobsBench {
  jobs: Jobs;
  pool: Pool;
  boss: Boss;
  gateway: GatewayRecord;
  database: DatabaseOptions;
  tenant(id: string, change?: TenantChange): Promise<void>;
  /** Admits a puppet's job. */
  submit(steps: Step[], body?: Partial<JobBody>, key?: string): Promise<JobView>;
  /** All lines through the end, as text and parsed. */
  read(jobId: string, after?: string): Promise<{ text: string; lines: Line[] }>;
  ended(jobId: string, timeoutMs?: number): Promise<JobView>;
  until(jobId: string, test: (job: JobView) => boolean, timeoutMs?: number): Promise<JobView>;
  /** Lets go and closes; the pool stays until Postgres stops. */
  stop(): Promise<void>;
}

/** Starts the jobs side; `database` continues an earlier one, `idle` only takes requests. */
export async function startJobs(
  postgres: TestPostgres,
  spawner: SpawnerClient,
  options: { stateDir: string; database?: DatabaseOptions; max?: number; idle?: boolean } & Partial<JobsDeps>,
): Promise<JobsBench> {
  const { database = await postgres.createDatabase(), max = 10, idle = false, ...given } = options;
  const pool = postgres.pool(database, max);
  const boss = await startBoss(pool, silentLog);
  const gateway = new GatewayRecord();
  const jobs = createJobs({
    ...{ pool, boss, spawner, gateway, log: silentLog, maxRunning: 16, model: { name: 'fake' } },
    ...given,
  });
  if (!idle) void jobs.start();
  const bench: JobsBench = {
    ...{ jobs, pool, boss, gateway, database },
    async tenant(id, change = {}) {
      await pool.query(`insert into engines (name) values ('puppet') on conflict do nothing`);
      await createTenant(pool, id, { wbbEngine: 'puppet', memoryBytes: 512 * 1024 ** 2, ...change });
    },
    async submit(steps, body = {}, key) {
      const full = { tenantId: 'acme', prompt: JSON.stringify(steps), ...body };
      return (await jobs.admit(OPERATOR, full, key)).job;
    },
    async read(jobId, after) {
      const signal = AbortSignal.timeout(30_000);
      const options = { follow: true, signal, ...(after === undefined ? {} : { after }) };
      const chunks: Buffer[] = [];
      for await (const chunk of await jobs.events(OPERATOR, jobId, options)) chunks.push(chunk);
      signal.throwIfAborted();
      const text = Buffer.concat(chunks).toString();
      const lines = text
        .split('\n')
        .slice(0, -1)
        .map((line) => JSON.parse(line) as Line);
      return { text, lines };
    },
    ended: (jobId, timeoutMs) => bench.until(jobId, ({ state }) => state === 'ended', timeoutMs),
    async until(jobId, test, timeoutMs = 20_000) {
      for (const deadline = Date.now() + timeoutMs; ; ) {
        const job = await jobs.get(OPERATOR, jobId);
        if (test(job)) return job;
        if (Date.now() > deadline) throw new Error(`not in ${timeoutMs} ms: ${JSON.stringify(job)}`);
        await sleep(10);
      }
    },
    async stop() {
      await jobs.stop(1000);
      await boss.stop({ graceful: false, close: false });
      if (!pool.ended) await pool.end();
    },
  };
  return bench;
}

/** `"attempt-seq"` of each line. */
export const cursors = (lines: Line[]): string[] => lines.map(({ attempt, seq }) => `${attempt}-${seq}`);

/** The text of every `token`. */
export const tokens = (lines: Line[]): string[] =>
  lines.filter(({ type }) => type === 'token').map(({ text }) => text as string);
