// The one LISTEN connection: passes notifications on, comes back by itself, and calls `missed` whenever some may be lost.
import { setTimeout as sleep } from 'node:timers/promises';
import type { Client, Pool } from '../db/pool.ts';
import type { Logger } from '../log.ts';

/** `queued <daemon>`, or `cancel <jobId>`. */
export const JOBS_CHANNEL = 'djinnd_jobs';
/** What the daemon of this name tells the others when it has admitted a job; itself it wakes without this detour. */
export const queuedPayload = (daemon: string): string => `queued ${daemon}`;
/** A tenant's id, sent by the trigger of the tenants table. */
export const TENANTS_CHANNEL = 'djinnd_tenants';

const RECONNECT_MS = 1_000;
/** A server that is gone without a word is noticed by the failure of this question. */
const CHECK_MS = 10_000;

export interface Wakes {
  close(): Promise<void>;
}

export function listenForWakes(
  pool: Pool,
  on: { notified(channel: string, payload: string): void; missed(): void },
  log: Logger,
): Wakes {
  const stop = new AbortController();
  const closed = listenForEver(pool, on, log, stop.signal);
  return {
    async close() {
      stop.abort();
      await closed;
    },
  };
}

async function listenForEver(
  pool: Pool,
  on: { notified(channel: string, payload: string): void; missed(): void },
  log: Logger,
  signal: AbortSignal,
): Promise<void> {
  while (!signal.aborted) {
    try {
      await listenOnce(await pool.connect(), on, signal);
    } catch (error) {
      if (!signal.aborted)
        log.warn({ err: error }, 'the notification connection was lost; polling meanwhile');
    }
    // An aborted wait is the way out.
    await sleep(RECONNECT_MS, undefined, { signal }).catch(() => {});
  }
}

async function listenOnce(
  client: Client,
  on: { notified(channel: string, payload: string): void; missed(): void },
  signal: AbortSignal,
): Promise<void> {
  client.on('notification', ({ channel, payload = '' }) => on.notified(channel, payload));
  let failed: Error | undefined;
  const lost = new AbortController();
  const onError = (error: Error): void => {
    failed = error;
    lost.abort();
  };
  client.on('error', onError);
  try {
    await client.query(`listen ${JOBS_CHANNEL}; listen ${TENANTS_CHANNEL}`);
    on.missed();
    while (!signal.aborted && failed === undefined) {
      // Ends early when the connection breaks or we are closing; the loop looks which.
      await sleep(CHECK_MS, undefined, { signal: AbortSignal.any([signal, lost.signal]) }).catch(() => {});
      if (!signal.aborted && failed === undefined) await client.query('select 1');
    }
    if (failed !== undefined) throw failed;
  } finally {
    // Never back into the pool: the next user would be listening too.
    client.release(true);
  }
}
