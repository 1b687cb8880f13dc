// The composition root of djinnd: makes every part, wires them, and closes them in the right order. Holds no logic.
import { join } from 'node:path';
import manifest from '../package.json' with { type: 'json' };
import type { Config } from './config.ts';
import { createPool, type Pool } from './db/pool.ts';
import { startBoss } from './db/queue.ts';
import { readTenant } from './db/tenants.ts';
import { addUsage, monthUsage } from './db/usage.ts';
import { checkUpstream, createGateway, type Gateway } from './gateway/index.ts';
import { createKeys, createTenants } from './http/directory.ts';
import { buildHttp } from './http/server.ts';
import { createJobs } from './jobs/index.ts';
import type { Jobs } from './jobs/types.ts';
import type { Logger } from './log.ts';
import { createMetrics, type Metrics } from './metrics.ts';
import { listenMetrics } from './metrics-listener.ts';
import { connectSpawner } from './spawner/client.ts';

/** Connections of the pool: commands and the migration use others. */
const POOL_SIZE = 20;

export interface App {
  /** Such as `http://127.0.0.1:8420`. */
  url: string;
  metricsUrl: string;
  /** Running jobs go on: the spawner holds them. Resolves within about the grace. */
  close(): Promise<void>;
}

/** Starts everything; resolves when HTTP listens. Throws when the database or an address cannot be had. */
export async function startApp(config: Config, connectionString: string, log: Logger): Promise<App> {
  checkUpstream(config.model.baseUrl);
  const closing: (() => Promise<void> | void)[] = [];
  const close = async () => {
    for (const step of closing.splice(0).reverse()) await step();
  };
  try {
    return { ...(await compose(config, connectionString, log, closing)), close };
  } catch (error) {
    await close();
    throw error;
  }
}

async function compose(
  config: Config,
  connectionString: string,
  log: Logger,
  closing: (() => Promise<void> | void)[],
): Promise<Omit<App, 'close'>> {
  const metrics = createMetrics();
  const pool = createPool({ connectionString, max: POOL_SIZE }, log);
  closing.push(() => pool.end());
  await requireMigrated(pool);
  const spawner = connectSpawner(join(config.runDir, 'spawner.sock'), log);
  closing.push(() => spawner.close());
  const boss = await startBoss(pool, log);
  closing.push(() => boss.stop({ graceful: false, close: false }));

  let jobs: Jobs;
  const gateway = composeGateway(config, pool, metrics, log, (jobId) => jobs.cancelForBudget(jobId));
  jobs = createJobs({
    ...{ pool, boss, spawner, gateway, log, stateDir: config.stateDir, maxRunning: config.maxRunning },
    model: config.model,
    metrics,
  });
  const http = await buildHttp({
    ...{ jobs, metrics, log, version: manifest.version, enforcement: jobs.enforcement },
    keys: createKeys(pool),
    tenants: createTenants(pool),
  });
  metrics.watch({
    jobs: () => jobs.counts(),
    spawnerUp: () => spawner.connected,
    enforcement: () => jobs.enforcement()?.controls ?? null,
    pool: () => ({ total: pool.totalCount, idle: pool.idleCount, waiting: pool.waitingCount }),
  });
  // New requests first, then what they wait for: streams end, then jobs are let go, then models are cut off.
  closing.push(() => gateway.stop(config.stopGraceMs));
  closing.push(() => jobs.stop(config.stopGraceMs));
  closing.push(() => http.stop(config.stopGraceMs));
  const metricsListener = await listenMetrics(metrics.registry, config.metricsListen);
  closing.push(() => metricsListener.close());
  const url = await http.listen(config.listen);
  // Waits for spawner and database; /readyz tells when it is done.
  void jobs.start().catch((error: unknown) => log.error({ err: error }, 'the jobs could not be taken up'));
  return { url, metricsUrl: metricsListener.url };
}

function composeGateway(
  { model }: Config,
  pool: Pool,
  metrics: Metrics,
  log: Logger,
  onBudgetSpent: (jobId: string) => Promise<void>,
): Gateway {
  return createGateway({
    upstreamFor: () => ({ baseUrl: model.baseUrl, apiKey: model.apiKey }),
    async budget(tenantId) {
      const cap = (await readTenant(pool, tenantId))?.monthlyTokens ?? null;
      return cap === null ? null : Math.max(0, cap - (await monthUsage(pool, tenantId)).totalTokens);
    },
    async onUsage(_jobId, { tenantId, inputTokens, outputTokens }) {
      await addUsage(pool, tenantId, { inputTokens, outputTokens, totalTokens: inputTokens + outputTokens });
    },
    onBudgetSpent: (jobId) => {
      onBudgetSpent(jobId).catch((error: unknown) =>
        log.warn({ err: error, jobId }, 'not cancelled for its budget'),
      );
    },
    metrics,
    log,
    ...(model.outputLimit === undefined ? {} : { limits: { outputTokens: model.outputLimit } }),
  });
}

/** A clear word at the start instead of a missing table at the first job. */
async function requireMigrated(pool: Pool): Promise<void> {
  const { rows } = await pool.query<{ ok: boolean }>(
    `select to_regclass('public.schema_migrations') is not null as ok`,
  );
  if (rows[0]?.ok !== true) throw new Error('the database is not migrated: run `djinnd migrate`');
}
