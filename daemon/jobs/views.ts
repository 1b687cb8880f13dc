// Jobs as callers see them, and who may see which.
import type { JobState } from '../db/job-types.ts';
import { type JobRow, listJobs, readJob } from '../db/jobs.ts';
import type { Queryable } from '../db/pool.ts';
import { Problem } from '../errors.ts';
import { badCursor } from './cursor.ts';
import type { Caller, JobView } from './types.ts';

/** The row as a view; what is not known yet is absent. */
export function viewJob(row: JobRow): JobView {
  const view: Record<string, unknown> = {
    jobId: row.jobId,
    tenantId: row.tenantId,
    sessionId: row.sessionId,
    state: row.state,
    outcome: row.outcome,
    engine: row.engine,
    attempt: row.attempt,
    createdAt: row.createdAt.toISOString(),
    startedAt: row.startedAt?.toISOString(),
    endedAt: row.endedAt?.toISOString(),
    cause: row.cause,
    exit: row.exit,
    evidence: row.evidence,
    resources: row.resources,
    enforcement: row.enforcement,
    metadata: row.metadata,
  };
  const known = Object.entries(view).filter(([, value]) => value !== null && value !== undefined);
  return Object.fromEntries(known) as unknown as JobView;
}

/** True when the caller acts for this tenant. */
export function maySee(caller: Caller, tenantId: string): boolean {
  return caller.role === 'operator' || caller.tenantIds.includes(tenantId);
}

/** The row. Throws Problem DJ_NOT_FOUND, in the same words for an unknown id and for another tenant's. */
export async function readVisible(db: Queryable, caller: Caller, jobId: string): Promise<JobRow> {
  const row = await readJob(db, jobId);
  if (row === null || !maySee(caller, row.tenantId))
    throw new Problem('DJ_NOT_FOUND', 'there is no such job');
  return row;
}

/**
 * One page, newest first. `next` is the cursor of the page after it: the id of the last job shown, which tells nothing
 * of other tenants. Throws Problem DJ_CURSOR_INVALID.
 */
export async function listVisible(
  db: Queryable,
  caller: Caller,
  { limit, cursor, state }: { limit: number; cursor?: string; state?: JobState },
): Promise<{ jobs: JobView[]; next: string | null }> {
  const rows = await listJobs(db, {
    tenantIds: caller.role === 'operator' ? null : caller.tenantIds,
    state: state ?? null,
    beforeOrdinal: cursor === undefined ? Number.MAX_SAFE_INTEGER : await ordinalOf(db, caller, cursor),
    limit: limit + 1,
  });
  const page = rows.slice(0, limit);
  const last = page.at(-1);
  return {
    jobs: page.map(viewJob),
    next: rows.length > limit && last !== undefined ? last.jobId : null,
  };
}

async function ordinalOf(db: Queryable, caller: Caller, cursor: string): Promise<number> {
  const row = /^[\w-]{1,64}$/.test(cursor) ? await readJob(db, cursor) : null;
  if (row === null || !maySee(caller, row.tenantId)) throw badCursor('this is not a cursor of the list');
  return row.ordinal;
}
