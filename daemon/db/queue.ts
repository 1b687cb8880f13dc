// The pg-boss queue that orders jobs: its schema, its one queue, the daemon's handle. The jobs row decides what runs.
import { PgBoss } from 'pg-boss';
import type { Logger } from '../log.ts';
import type { Queryable } from './pool.ts';

export type Boss = PgBoss;

/** The queue's name and, per job, the order key of its session. */
export const QUEUE = 'jobs';
export const sessionOrderKey = (tenantId: string, sessionId: string): string => `${tenantId}/${sessionId}`;

const SCHEMA = 'pgboss';
const TEN_YEARS_S = 10 * 365 * 86_400;
const DAY_S = 86_400;

/**
 * `key_strict_fifo`: a session's next entry is handed out only when the one before is complete. No retries and no
 * heartbeat: pg-boss would hand out a job that still runs. An entry is active for all attempts of its job.
 */
const QUEUE_OPTIONS = {
  retryLimit: 0,
  expireInSeconds: DAY_S,
  retentionSeconds: TEN_YEARS_S,
  deleteAfterSeconds: DAY_S,
};

/** Lets pg-boss run its statements on the given connection, inside whatever transaction is open there. */
export function bossDatabase(client: Queryable) {
  return {
    async executeSql(text: string, values?: unknown[]) {
      const result = await client.query(text, values as unknown[]);
      // Several statements in one text give several results; pg-boss wants the rows of all.
      return Array.isArray(result) ? { rows: result.flatMap((one) => one.rows) } : { rows: result.rows };
    },
  };
}

/** A handle for send, fetch and complete. No supervision: pg-boss must never expire, fail or retry an entry by itself. */
export async function startBoss(pool: Queryable, log: Logger): Promise<Boss> {
  const boss = new PgBoss({
    db: bossDatabase(pool),
    schema: SCHEMA,
    migrate: false,
    createSchema: false,
    supervise: false,
    schedule: false,
    registerInstance: false,
    openTelemetry: { enabled: false },
  });
  boss.on('error', (error) => log.warn({ err: error }, 'the queue reported an error'));
  await boss.start();
  return boss;
}

/** Installs or migrates pg-boss's schema, makes the queue and grants it to the daemon. Runs as djinnd_owner. */
export async function installQueue(client: Queryable, log: Logger): Promise<void> {
  await client.query(`create schema if not exists ${SCHEMA}`);
  const boss = new PgBoss({
    db: bossDatabase(client),
    schema: SCHEMA,
    migrate: true,
    createSchema: false,
    supervise: false,
    schedule: false,
    registerInstance: false,
    openTelemetry: { enabled: false },
  });
  boss.on('error', (error) => log.warn({ err: error }, 'the queue reported an error'));
  await boss.start();
  try {
    if ((await boss.getQueue(QUEUE)) === null) {
      await boss.createQueue(QUEUE, { ...QUEUE_OPTIONS, policy: 'key_strict_fifo' });
    } else {
      await boss.updateQueue(QUEUE, QUEUE_OPTIONS);
    }
  } finally {
    await boss.stop({ graceful: false, close: false });
  }
  await client.query(`
    grant usage on schema ${SCHEMA} to djinnd_app, djinnd_operator;
    grant select, insert, update, delete on all tables in schema ${SCHEMA} to djinnd_app;
    grant select on all tables in schema ${SCHEMA} to djinnd_operator;
    grant usage, select on all sequences in schema ${SCHEMA} to djinnd_app;
    grant execute on all functions in schema ${SCHEMA} to djinnd_app`);
}
