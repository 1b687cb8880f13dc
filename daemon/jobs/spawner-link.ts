// What the jobs side does about the spawner's connection: greets it, reconciles once, and asks for what was missed.
import { setTimeout as sleep } from 'node:timers/promises';
import { registerEngines } from '../db/engines.ts';
import { SpawnerError } from '../spawner/client.ts';
import type { Health } from './health.ts';
import { cancelStrays, findResumptions, pruneEnded } from './reconcile.ts';
import type { RunDeps } from './run-deps.ts';
import type { RunTable } from './run-table.ts';

const RETRY_MS = 200;

export interface SpawnerLink {
  /** Resolves when jobs of an earlier run have been found again, which takes spawner and database. */
  reconciled: Promise<void>;
  close(): void;
}

export function linkSpawner(
  deps: RunDeps,
  node: string,
  { runs, health, wake }: { runs: RunTable; health: Health; wake(): void },
): SpawnerLink {
  const { spawner, log } = deps;
  const stop = new AbortController();
  let greeting: Promise<void> | null = null;

  /** Once per connection, until it has worked. */
  async function greet(): Promise<void> {
    while (spawner.connected && !stop.signal.aborted) {
      try {
        await spawner.call('control', {});
        health.controlledByOther = false;
        await greetOnce(deps, node, runs, health);
        wake();
        return;
      } catch (error) {
        const controlled = error instanceof SpawnerError && error.code === 'controlled';
        if (!controlled) log.warn({ err: error }, 'the spawner was not greeted yet; tried again');
        else if (!health.controlledByOther)
          log.error('the spawner works with another djinnd; this one waits');
        health.controlledByOther = controlled;
        await sleep(RETRY_MS, undefined, { signal: stop.signal }).catch(() => {}); // aborted: looked at next
      }
    }
  }

  function connected(): void {
    // The one before belongs to a connection that is gone, and ends with it.
    const earlier = greeting ?? Promise.resolve();
    greeting = earlier.then(greet);
  }

  const off = [
    spawner.on('up', connected),
    spawner.on('down', () => {
      health.spawner = false;
      health.controlledByOther = false;
      runs.disconnected();
      log.warn('the spawner cannot be reached; jobs wait');
    }),
    spawner.on('running', ({ jobId, attempt }) => runs.running(jobId, attempt)),
    spawner.on('sealed', ({ jobId, last }) => {
      // The job was closed before the spawner was done with its attempt, which refused the first pruning.
      if (last === 'end' && !runs.has(jobId)) spawner.call('prune', { jobId }).catch(() => {}); // left to tidying
    }),
  ];
  if (spawner.connected) connected();
  return {
    reconciled: untilReconciled(health, stop.signal),
    close() {
      stop.abort();
      for (const end of off) end();
    },
  };
}

async function greetOnce(deps: RunDeps, node: string, runs: RunTable, health: Health): Promise<void> {
  const { engines, enforcement } = await deps.spawner.call('hello', {});
  health.enforcement = enforcement;
  health.engines = new Set(engines.map(({ name }) => name));
  health.spawner = true;
  await registerEngines(deps.pool, [...health.engines]);
  if (!health.reconciled) {
    for (const { row, accepted, info } of await findResumptions(deps, node)) runs.launch(row, accepted, info);
  }
  const { attempts } = await deps.spawner.call('list', {});
  if (health.reconciled) runs.listed(attempts);
  await cancelStrays(deps, attempts, (jobId) => runs.has(jobId));
  if (health.reconciled) return;
  health.reconciled = true;
  await pruneEnded(deps);
}

async function untilReconciled(health: Health, signal: AbortSignal): Promise<void> {
  while (!health.reconciled && !signal.aborted) {
    await sleep(20, undefined, { signal }).catch(() => {}); // aborted: looked at next
  }
}
