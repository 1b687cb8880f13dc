// What the jobs side does about the database: notices when it goes and comes, looks for what a notification may have
// failed to tell, listens for notifications, tidies.
import { readNews } from '../db/jobs.ts';
import { QUEUE } from '../db/queue.ts';
import type { Health } from './health.ts';
import { pruneEnded } from './reconcile.ts';
import type { RunDeps } from './run-deps.ts';
import type { RunTable } from './run-table.ts';
import { JOBS_CHANNEL, listenForWakes, queuedPayload } from './wakes.ts';

const CHECK_MS = 2_000;
/** Spools that could not be pruned at their job's end, and spent queue entries. */
const TIDY_MS = 60_000;

export function watchDatabase(
  deps: RunDeps,
  node: string,
  { runs, health, wake }: { runs: RunTable; health: Health; wake(): void },
): { close(): Promise<void> } {
  const { pool, boss, spawner, log } = deps;
  const ownPayload = queuedPayload(deps.self);

  async function check(): Promise<void> {
    try {
      const news = await readNews(pool, node);
      health.queued = news.queued;
      for (const { jobId, cause } of news.cancelled) runs.cancel(jobId, cause);
      if (!health.database) log.info('the database is back');
      health.database = true;
    } catch (error) {
      if (health.database) log.error({ err: error }, 'the database cannot be reached; jobs run on');
      health.database = false;
    }
  }

  async function tidy(): Promise<void> {
    try {
      if (health.reconciled && spawner.connected) await pruneEnded(deps);
      await boss.deleteStoredJobs(QUEUE);
    } catch (error) {
      log.debug({ err: error }, 'tidying is left to the next time');
    }
  }

  function notified(channel: string, payload: string): void {
    if (channel === JOBS_CHANNEL && payload === ownPayload) return;
    const jobId = /^cancel (job_[A-Za-z0-9_-]{1,64})$/.exec(payload)?.[1];
    if (channel !== JOBS_CHANNEL || jobId === undefined) wake();
    else runs.cancel(jobId, 'cancelled');
  }

  const wakes = listenForWakes(pool, { missed: wake, notified }, log);
  const timers = [setInterval(() => void check(), CHECK_MS), setInterval(() => void tidy(), TIDY_MS)];
  return {
    async close() {
      for (const timer of timers) clearInterval(timer);
      await wakes.close();
    },
  };
}
