// Composes the jobs side: requests, dispatcher, the runs of this machine, and what happens when the spawner comes and goes.
import { hostname } from 'node:os';
import { setTimeout as sleep } from 'node:timers/promises';
import { registerEngines } from '../db/engines.ts';
import { type JobRow, readJob } from '../db/jobs.ts';
import { QUEUE } from '../db/queue.ts';
import { claimNext } from './claim.ts';
import { type Dispatcher, startDispatcher } from './dispatcher.ts';
import { newHealth, readinessOf } from './health.ts';
import { cancelStrays, findResumptions, pruneEnded } from './reconcile.ts';
import { createRequests } from './requests.ts';
import { Detached, Run } from './run.ts';
import type { Accepted, RunDeps } from './run-deps.ts';
import { createJobSignals } from './signals.ts';
import type { Jobs, JobsDeps } from './types.ts';
import { createUntilDone } from './until-done.ts';
import { JOBS_CHANNEL, listenForWakes, type Wakes } from './wakes.ts';

export type { GatewayJob, GatewaySeam } from './gateway-seam.ts';
export type * from './types.ts';

const CHECK_MS = 2_000;
/** Spools that could not be pruned at their job's end, and spent queue entries. */
const TIDY_MS = 60_000;
const RESUME_RETRY_MS = 2_000;

/** Makes the jobs side; nothing happens before `start`. */
export function createJobs(given: JobsDeps): Jobs {
  const { pool, boss, spawner, log, maxRunning } = given;
  const node = given.node ?? hostname();
  const deps: RunDeps = {
    ...given,
    metrics: given.metrics ?? {},
    signals: createJobSignals(),
    untilDone: createUntilDone(log),
  };
  const health = newHealth();
  const runs = new Map<string, Run>();
  const lives = new Set<Promise<void>>();
  const stop = new AbortController();
  const off: (() => void)[] = [];
  let dispatcher: Dispatcher | null = null;
  let wakes: Wakes | null = null;
  let timers: NodeJS.Timeout[] = [];

  const wake = (): void => dispatcher?.wake();
  const requests = createRequests({
    ...deps,
    health,
    wake,
    cancelRun(jobId, cause) {
      runs.get(jobId)?.cancel(cause);
      return runs.has(jobId);
    },
  });

  function launch(row: JobRow, accepted: Accepted | null): Run {
    const run = new Run(deps, row);
    runs.set(row.jobId, run);
    const life = run.live(accepted).then(
      () => finish(run),
      (error: unknown) => {
        if (error instanceof Detached || stop.signal.aborted) return finish(run);
        // Our own fault. The job must not hang for it: it is taken up again as after a restart.
        log.error({ err: error, jobId: row.jobId }, 'a run failed unexpectedly; taken up again');
        run.detach();
        return relaunch(row.jobId);
      },
    );
    lives.add(life);
    void life.finally(() => lives.delete(life));
    return run;
  }

  function finish(run: Run): void {
    runs.delete(run.row.jobId);
    wake();
  }

  async function relaunch(jobId: string): Promise<void> {
    while (!stop.signal.aborted) {
      await sleep(RESUME_RETRY_MS, undefined, { signal: stop.signal }).catch(() => {});
      try {
        const found = (await findResumptions(deps, node)).find(({ row }) => row.jobId === jobId);
        if (found !== undefined) return void launch(found.row, found.accepted);
        if ((await readJob(pool, jobId))?.state === 'ended') break;
      } catch (error) {
        log.warn({ err: error, jobId }, 'a run cannot be taken up yet');
      }
    }
    runs.delete(jobId);
    wake();
  }

  /** A new connection: what was missed meanwhile is asked for. */
  async function greet(): Promise<void> {
    health.spawner = true;
    const { engines, enforcement } = await spawner.call('hello', {});
    health.enforcement = enforcement;
    health.engines = new Set(engines.map(({ name }) => name));
    await registerEngines(
      pool,
      [...health.engines].filter((name) => /^[a-z][a-z0-9-]{0,31}$/.test(name)),
    );
    if (!health.reconciled) return;
    const { attempts } = await spawner.call('list', {});
    for (const run of runs.values()) {
      const { jobId, attempt } = run.row;
      run.listed(attempts.find((one) => one.jobId === jobId && one.attempt === attempt));
    }
    await cancelStrays(deps, (jobId) => runs.has(jobId));
    wake();
  }

  async function reconcile(): Promise<void> {
    for (const { row, accepted, info } of await findResumptions(deps, node)) {
      if (!runs.has(row.jobId)) launch(row, accepted).listed(info);
    }
    await cancelStrays(deps, (jobId) => runs.has(jobId));
    health.reconciled = true;
    await pruneEnded(deps);
  }

  /** Until it has worked: without the spawner and the database there is nothing to go on with. */
  async function untilReconciled(): Promise<void> {
    while (!stop.signal.aborted && !health.reconciled) {
      try {
        if (spawner.connected) {
          await greet();
          await reconcile();
        }
      } catch (error) {
        log.warn({ err: error }, 'jobs cannot be reconciled yet; tried again');
      }
      if (!health.reconciled) await sleep(200, undefined, { signal: stop.signal }).catch(() => {});
    }
  }

  async function checkDatabase(): Promise<void> {
    try {
      await pool.query('select 1');
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

  function follow(): void {
    off.push(
      spawner.on('up', () => {
        greet().catch((error: unknown) => log.warn({ err: error }, 'the spawner came and went'));
      }),
      spawner.on('down', () => {
        health.spawner = false;
        for (const run of runs.values()) run.disconnected();
        log.warn('the spawner cannot be reached; jobs wait');
      }),
      spawner.on('sealed', ({ jobId, last }) => {
        // The job was closed before the spawner was done with its attempt, which refused the first pruning.
        if (last === 'end' && !runs.has(jobId)) spawner.call('prune', { jobId }).catch(() => {});
      }),
      spawner.on('running', ({ jobId, attempt }) => runs.get(jobId)?.running(attempt)),
    );
    wakes = listenForWakes(pool, { missed: wake, notified }, log);
    timers = [setInterval(() => void checkDatabase(), CHECK_MS), setInterval(() => void tidy(), TIDY_MS)];
  }

  function notified(channel: string, payload: string): void {
    const jobId = /^cancel (job_[A-Za-z0-9_-]{1,64})$/.exec(payload)?.[1];
    if (channel !== JOBS_CHANNEL || jobId === undefined) wake();
    else runs.get(jobId)?.cancel('cancelled');
  }

  return {
    ...requests,
    async start() {
      follow();
      await untilReconciled();
      if (stop.signal.aborted) return;
      dispatcher = startDispatcher({
        ready: () =>
          runs.size < maxRunning &&
          spawner.connected &&
          health.enforcement?.refused === false &&
          health.database,
        claim: () => claimNext(pool, boss, node),
        launch(row) {
          deps.metrics.jobClaimed?.(Date.now() - row.createdAt.getTime(), row.engine ?? '');
          launch(row, null);
        },
        log,
      });
      wake();
    },
    async stop() {
      health.stopping = true;
      stop.abort();
      for (const timer of timers) clearInterval(timer);
      for (const end of off) end();
      await dispatcher?.stop();
      for (const run of runs.values()) run.detach();
      await Promise.all([wakes?.close(), ...lives]);
    },
    readiness: () => readinessOf(health),
    enforcement: () => (health.spawner ? health.enforcement : null),
    running: () => runs.size,
  };
}
