// The jobs table, write side: every change of a job's state is one compare-and-set here, so that two deciders never both win.
import type { CancelCause, Grant, Outcome, StoredPayload } from './job-types.ts';
import { JOB_SELECT, type JobRow } from './jobs.ts';
import type { Queryable } from './pool.ts';

export interface NewJob {
  jobId: string;
  tenantId: string;
  sessionId: string;
  queueId: string;
  idempotencyKey: string | null;
  bodySha256: Buffer;
  payload: StoredPayload;
  model: string | null;
  requestedLimits: object;
  metadata: object | null;
}

const json = (value: unknown): string | null =>
  value === undefined || value === null ? null : JSON.stringify(value);

/** Adds a queued job. */
export async function insertJob(db: Queryable, job: NewJob): Promise<JobRow> {
  const { rows } = await db.query<JobRow>(
    `insert into jobs (job_id, tenant_id, session_id, queue_id, idempotency_key, body_sha256,
       payload, model, requested_limits, metadata)
     values ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10) returning ${JOB_SELECT}`,
    [
      job.jobId,
      job.tenantId,
      job.sessionId,
      job.queueId,
      job.idempotencyKey,
      job.bodySha256,
      JSON.stringify(job.payload),
      job.model,
      JSON.stringify(job.requestedLimits),
      json(job.metadata),
    ],
  );
  return rows[0] as JobRow;
}

/** queued → starting. Stamps the engine that the same transaction read. Null: no longer queued. */
export async function claimJob(
  db: Queryable,
  jobId: string,
  { node, engine, granted }: { node: string; engine: string; granted: Grant },
): Promise<JobRow | null> {
  const { rows } = await db.query<JobRow>(
    `update jobs set state = 'starting', attempt = 1, node = $2, engine = $3, granted = $4,
       claimed_at = clock_timestamp()
     where job_id = $1 and state = 'queued' returning ${JOB_SELECT}`,
    [jobId, node, engine, JSON.stringify(granted)],
  );
  return rows[0] ?? null;
}

/** starting → running, once the program exists. */
export async function markRunning(db: Queryable, jobId: string, attempt: number): Promise<void> {
  await db.query(
    `update jobs set state = 'running', started_at = coalesce(started_at, clock_timestamp())
     where job_id = $1 and attempt = $2 and state = 'starting'`,
    [jobId, attempt],
  );
}

/** The attempt is lost: the row moves to the next one. False: the row has moved on already. */
export async function beginNextAttempt(db: Queryable, jobId: string, lost: number): Promise<boolean> {
  const { rowCount } = await db.query(
    `update jobs set state = 'starting', attempt = $2 + 1
     where job_id = $1 and attempt = $2 and state in ('starting', 'running')`,
    [jobId, lost],
  );
  return rowCount === 1;
}

/** The first asker's cause stays. Null: there is no such job or it has ended. */
export async function requestCancel(
  db: Queryable,
  jobId: string,
  cause: CancelCause,
): Promise<JobRow | null> {
  const { rows } = await db.query<JobRow>(
    `update jobs set cancel_cause = coalesce(cancel_cause, $2)
     where job_id = $1 and state <> 'ended' returning ${JOB_SELECT}`,
    [jobId, cause],
  );
  return rows[0] ?? null;
}

export interface JobEnd {
  outcome: Outcome;
  cause?: unknown;
  exit?: unknown;
  evidence?: unknown;
  resources?: unknown;
  enforcement?: unknown;
  /** Only of an end that djinnd itself wrote. */
  endLine?: Buffer;
}

/** → ended, from one of `from` and, where given, only at this attempt. Null: somebody else decided. */
export async function endJob(
  db: Queryable,
  jobId: string,
  end: JobEnd,
  only: { states: readonly string[]; attempt?: number },
): Promise<JobRow | null> {
  const { rows } = await db.query<JobRow>(
    `update jobs set state = 'ended', ended_at = clock_timestamp(), outcome = $2, cause = $3, exit = $4,
       evidence = $5, resources = $6, enforcement = $7, end_line = $8
     where job_id = $1 and state = any($9::text[]) and ($10::int is null or attempt = $10) returning ${JOB_SELECT}`,
    [
      jobId,
      end.outcome,
      json(end.cause),
      json(end.exit),
      json(end.evidence),
      json(end.resources),
      json(end.enforcement),
      end.endLine ?? null,
      only.states,
      only.attempt ?? null,
    ],
  );
  return rows[0] ?? null;
}
