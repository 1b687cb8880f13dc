// Ends jobs: the row and its queue entry in one transaction, from the spawner's closing line or by djinnd itself.
import { endJob, type JobEnd } from '../db/job-changes.ts';
import { OUTCOMES, type Outcome } from '../db/job-types.ts';
import type { JobRow } from '../db/jobs.ts';
import { inTransaction, type Pool } from '../db/pool.ts';
import { type Boss, bossDatabase, QUEUE } from '../db/queue.ts';
import { type Closing, ownEndLine } from './event-line.ts';
import { CLAIM_LOCK } from './locks.ts';

const KNOWN: ReadonlySet<string> = new Set(OUTCOMES);

export interface EndDeps {
  pool: Pool;
  boss: Boss;
}

/** Ends the row as the spawner's `end` line says. Null: it had ended already. */
export function endBySpawner(
  deps: EndDeps,
  jobId: string,
  { event }: Extract<Closing, { kind: 'end' }>,
): Promise<JobRow | null> {
  const { outcome, cause, exit, evidence, resources, enforcement } = event;
  // An outcome of a newer spawner that this daemon cannot name is at least not a success.
  const known = KNOWN.has(outcome) ? outcome : 'failed';
  return end(
    deps,
    jobId,
    { outcome: known, cause, exit, evidence, resources, enforcement },
    {
      states: ['starting', 'running'],
    },
  );
}

/**
 * Ends a claimed job of which the spawner has accepted no attempt with the row's number. Null: the row has moved on.
 */
export function endByDjinnd(
  deps: EndDeps,
  row: JobRow,
  outcome: Outcome,
  cause: { code: string; message: string },
): Promise<JobRow | null> {
  const endLine = ownEndLine(row, outcome, cause);
  return end(
    deps,
    row.jobId,
    { outcome, cause, endLine },
    {
      states: ['starting', 'running'],
      attempt: row.attempt,
    },
  );
}

/** Ends a job that nobody has claimed. Null: it is not queued. */
export function endQueued(
  { pool, boss }: EndDeps,
  row: JobRow,
  outcome: Outcome,
  cause: { code: string; message: string },
): Promise<JobRow | null> {
  // Locks: the claim lock, the job's row, its entry. A claim takes entry and row the other way round.
  return inTransaction(
    pool,
    async (client) => {
      const endLine = ownEndLine(row, outcome, cause);
      const ended = await endJob(client, row.jobId, { outcome, cause, endLine }, { states: ['queued'] });
      if (ended !== null) {
        await boss.complete(QUEUE, ended.queueId, {}, { db: bossDatabase(client), includeQueued: true });
      }
      return ended;
    },
    CLAIM_LOCK,
  );
}

function end(
  { pool, boss }: EndDeps,
  jobId: string,
  how: JobEnd,
  only: { states: readonly string[]; attempt?: number },
): Promise<JobRow | null> {
  return inTransaction(pool, async (client) => {
    // Locks: the job's row, then its entry, which is active and so of no interest to claims.
    const ended = await endJob(client, jobId, how, only);
    if (ended !== null) await boss.complete(QUEUE, ended.queueId, {}, { db: bossDatabase(client) });
    return ended;
  });
}
