// Composes the jobs side: requests, dispatcher, the runs of this machine, its links to spawner and database.
import { randomUUID } from 'node:crypto';
import { hostname } from 'node:os';
import { claimNext } from './claim.ts';
import { watchDatabase } from './database-watch.ts';
import { type Dispatcher, startDispatcher } from './dispatcher.ts';
import { newHealth, readinessOf } from './health.ts';
import { createRequests } from './requests.ts';
import type { RunDeps } from './run-deps.ts';
import { RunTable } from './run-table.ts';
import { createJobSignals } from './signals.ts';
import { linkSpawner } from './spawner-link.ts';
import type { Jobs, JobsDeps } from './types.ts';
import { createUntilDone } from './until-done.ts';

export type { GatewayJob, GatewaySeam } from './gateway-seam.ts';
export type * from './types.ts';

/** Makes the jobs side; nothing happens before `start`. */
export function createJobs(given: JobsDeps): Jobs {
  const node = given.node ?? hostname();
  const deps: RunDeps = {
    ...given,
    self: randomUUID(),
    metrics: given.metrics ?? {},
    signals: createJobSignals(),
    untilDone: createUntilDone(given.log),
  };
  const health = newHealth();
  let dispatcher: Dispatcher | null = null;
  const wake = (): void => dispatcher?.wake();
  const runs = new RunTable(deps, node, () => dispatcher?.freed());
  const closing: (() => Promise<void> | void)[] = [];

  return {
    ...createRequests({ ...deps, health, wake, cancelRun: (jobId, cause) => runs.cancel(jobId, cause) }),
    async start() {
      const link = linkSpawner(deps, node, { runs, health, wake });
      const watch = watchDatabase(deps, node, { runs, health, wake });
      closing.push(() => link.close(), watch.close);
      await link.reconciled;
      if (!health.stopping) dispatcher = dispatch(deps, given.maxRunning, { node, runs, health });
      wake();
    },
    async stop() {
      health.stopping = true;
      await Promise.all(closing.splice(0).map((close) => close()));
      await dispatcher?.stop();
      await runs.detachAll();
    },
    readiness: () => readinessOf(health),
    enforcement: () => (health.spawner ? health.enforcement : null),
    running: () => runs.size,
    counts: () => ({ queued: health.queued, running: runs.size }),
  };
}

function dispatch(
  { pool, boss, spawner, metrics, log }: RunDeps,
  maxRunning: number,
  { node, runs, health }: { node: string; runs: RunTable; health: ReturnType<typeof newHealth> },
): Dispatcher {
  return startDispatcher({
    ready: () =>
      runs.size < maxRunning && spawner.connected && health.enforcement?.refused === false && health.database,
    claim: () => claimNext(pool, boss, node),
    launch(row) {
      metrics.jobClaimed?.(Date.now() - row.createdAt.getTime(), row.engine ?? '');
      runs.launch(row, null);
    },
    log,
  });
}
