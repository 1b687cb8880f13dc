// The jobs table, read side: rows as the daemon sees them, single, listed, and those that this machine runs.
import type { CancelCause, Grant, JobLimits, JobState, Outcome, StoredPayload } from './job-types.ts';
import type { Queryable } from './pool.ts';

/** A row without its payload, which may be megabytes. */
export interface JobRow {
  jobId: string;
  ordinal: number;
  tenantId: string;
  sessionId: string;
  state: JobState;
  outcome: Outcome | null;
  engine: string | null;
  attempt: number;
  node: string | null;
  queueId: string;
  bodySha256: Buffer;
  /** The model that was asked for; null: the daemon's own. */
  model: string | null;
  requestedLimits: Partial<JobLimits>;
  granted: Grant | null;
  metadata: unknown;
  cancelCause: CancelCause | null;
  cause: unknown;
  exit: unknown;
  evidence: unknown;
  resources: unknown;
  enforcement: unknown;
  endLine: Buffer | null;
  createdAt: Date;
  startedAt: Date | null;
  endedAt: Date | null;
}

export const JOB_SELECT = `job_id as "jobId", ordinal, tenant_id as "tenantId", session_id as "sessionId", state, outcome,
  engine, attempt, node, queue_id as "queueId", body_sha256 as "bodySha256", model, requested_limits as "requestedLimits",
  granted, metadata, cancel_cause as "cancelCause", cause, exit, evidence, resources, enforcement,
  end_line as "endLine", created_at as "createdAt", started_at as "startedAt", ended_at as "endedAt"`;

/** The row, or null. */
export async function readJob(db: Queryable, jobId: string): Promise<JobRow | null> {
  const { rows } = await db.query<JobRow>(`select ${JOB_SELECT} from jobs where job_id = $1`, [jobId]);
  return rows[0] ?? null;
}

/** What the job is to run. Throws when the row is gone. */
export async function readPayload(db: Queryable, jobId: string): Promise<StoredPayload> {
  const { rows } = await db.query<{ payload: StoredPayload }>('select payload from jobs where job_id = $1', [
    jobId,
  ]);
  if (rows[0] === undefined) throw new Error(`the row of ${jobId} is gone`);
  return rows[0].payload;
}

/** The job that a tenant's idempotency key made, or null. */
export async function findByIdempotencyKey(
  db: Queryable,
  tenantId: string,
  key: string,
): Promise<JobRow | null> {
  const { rows } = await db.query<JobRow>(
    `select ${JOB_SELECT} from jobs where tenant_id = $1 and idempotency_key = $2`,
    [tenantId, key],
  );
  return rows[0] ?? null;
}

/** Jobs newest first, before `beforeOrdinal`. `tenantIds` null: of all tenants. */
export async function listJobs(
  db: Queryable,
  {
    tenantIds,
    state,
    beforeOrdinal,
    limit,
  }: { tenantIds: readonly string[] | null; state: JobState | null; beforeOrdinal: number; limit: number },
): Promise<JobRow[]> {
  const { rows } = await db.query<JobRow>(
    `select ${JOB_SELECT} from jobs
     where ($1::text[] is null or tenant_id = any($1)) and ($2::text is null or state = $2) and ordinal < $3
     order by ordinal desc limit $4`,
    [tenantIds, state, beforeOrdinal, limit],
  );
  return rows;
}

/** Jobs that are claimed and not ended, of this node or of the given ids. */
export async function listLive(db: Queryable, node: string, jobIds: readonly string[]): Promise<JobRow[]> {
  const { rows } = await db.query<JobRow>(
    `select ${JOB_SELECT} from jobs
     where state in ('starting', 'running') and (node = $1 or job_id = any($2)) order by ordinal`,
    [node, jobIds],
  );
  return rows;
}

/** Which of these jobs have ended: everything of them is stored. */
export async function filterEnded(db: Queryable, jobIds: readonly string[]): Promise<string[]> {
  const { rows } = await db.query<{ jobId: string }>(
    `select job_id as "jobId" from jobs where job_id = any($1) and state = 'ended'`,
    [jobIds],
  );
  return rows.map(({ jobId }) => jobId);
}

/** How many jobs of the tenant wait, counted no further than its max_queued. */
export async function countQueued(db: Queryable, tenantId: string): Promise<number> {
  const { rows } = await db.query<{ count: number }>(
    `select count(*)::int as count from
       (select from jobs where tenant_id = $1 and state = 'queued'
        limit (select max_queued from tenants where id = $1)) as q`,
    [tenantId],
  );
  return rows[0]?.count ?? 0;
}

export interface WaitingTenant {
  tenantId: string;
  maxRunning: number;
  running: number;
  /** Counted no further than 2: is there another one behind the next? */
  queued: number;
}

/**
 * Tenants with a queued job, with what they run now on all machines. Steps from tenant to tenant through the partial
 * index, so that 10,000 queued jobs of one tenant cost as much as one.
 */
export async function listWaitingTenants(db: Queryable): Promise<WaitingTenant[]> {
  const { rows } = await db.query<WaitingTenant>(
    `with recursive waiting (tenant_id) as (
       (select tenant_id from jobs where state = 'queued' order by tenant_id limit 1)
       union all
       select (select j.tenant_id from jobs j where j.state = 'queued' and j.tenant_id > w.tenant_id
               order by j.tenant_id limit 1)
       from waiting w where w.tenant_id is not null
     )
     select t.id as "tenantId", t.max_running as "maxRunning",
       (select count(*)::int from (select from jobs q where q.tenant_id = t.id and q.state = 'queued' limit 2) as q)
         as queued,
       (select count(*)::int from jobs r where r.tenant_id = t.id and r.state in ('starting', 'running')) as running
     from waiting w join tenants t on t.id = w.tenant_id`,
  );
  return rows;
}

/** Jobs that wait on all machines, and jobs of this node that were asked to end: what a machine looks for by itself. */
export async function readNews(
  db: Queryable,
  node: string,
): Promise<{ queued: number; cancelled: { jobId: string; cause: CancelCause }[] }> {
  const { rows } = await db.query<{ queued: number; cancelled: { jobId: string; cause: CancelCause }[] }>(
    `select (select count(*)::int from jobs where state = 'queued') as queued,
       coalesce((select json_agg(json_build_object('jobId', job_id, 'cause', cancel_cause)) from jobs
         where state in ('starting', 'running') and node = $1 and cancel_cause is not null), '[]') as cancelled`,
    [node],
  );
  return rows[0] ?? { queued: 0, cancelled: [] };
}
