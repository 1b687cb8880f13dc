// Brings rows, spawner and spools together: at start, and whenever the spawner's connection is new.
import { existsSync } from 'node:fs';
import { readdir } from 'node:fs/promises';
import { filterEnded, type JobRow, listLive } from '../db/jobs.ts';
import { SpawnerError } from '../spawner/client.ts';
import type { AttemptInfo } from '../spawner/wire.ts';
import { spoolDir, spoolPath } from './paths.ts';
import type { Accepted, RunDeps } from './run-deps.ts';

/** A row to go on with; `accepted` null: its attempt is to be started (again). */
export interface Resumption {
  row: JobRow;
  accepted: Accepted | null;
  info: AttemptInfo | undefined;
}

const PRUNE_BATCH = 500;

/** Rows that are claimed and not ended, and how each goes on. Of this node, or with a spool on this machine. */
export async function findResumptions(deps: RunDeps, node: string): Promise<Resumption[]> {
  // The list first: what ends after it is sealed in its spool by the time that is looked for.
  const { attempts } = await deps.spawner.call('list', {});
  const rows = await listLive(deps.pool, node, await spooledJobs(deps.stateDir));
  return rows.map((row) => {
    const info = attempts.find(({ jobId, attempt }) => jobId === row.jobId && attempt === row.attempt);
    const spooled = existsSync(spoolPath(deps.stateDir, row.jobId, row.attempt));
    // Neither: the claim was the last thing that happened, or its start is on the way. Starting is idempotent.
    const accepted = info !== undefined || spooled ? { gatewayDir: info?.gatewayDir ?? null } : null;
    return { row, accepted, info };
  });
}

/** Ends attempts at the spawner whose job is not ours to run: its row has ended or does not exist. */
export async function cancelStrays(
  deps: RunDeps,
  attempts: readonly AttemptInfo[],
  isOurs: (jobId: string) => boolean,
): Promise<void> {
  for (const { jobId, attempt } of attempts) {
    if (isOurs(jobId)) continue;
    deps.log.warn({ jobId, attempt }, 'an attempt runs whose job has no open row; it is ended');
    await deps.spawner.call('cancel', { jobId, attempt, cause: 'cancelled' });
  }
}

/** Lets go of spools of jobs that ended while they could not be pruned. */
export async function pruneEnded(deps: RunDeps): Promise<void> {
  const jobIds = await spooledJobs(deps.stateDir);
  for (let at = 0; at < jobIds.length; at += PRUNE_BATCH) {
    for (const jobId of await filterEnded(deps.pool, jobIds.slice(at, at + PRUNE_BATCH))) {
      await deps.spawner.call('prune', { jobId }).catch((error: unknown) => {
        // Its attempt is still being cleaned up.
        if (!(error instanceof SpawnerError)) throw error;
      });
    }
  }
}

async function spooledJobs(stateDir: string): Promise<string[]> {
  try {
    return (await readdir(spoolDir(stateDir))).filter((name) => name.startsWith('job_'));
  } catch (error) {
    // Made by the spawner with its first job.
    if ((error as NodeJS.ErrnoException).code === 'ENOENT') return [];
    throw error;
  }
}
