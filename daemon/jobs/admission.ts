// Admits a job: one transaction that checks the tenant's row and adds session, job and queue entry together.
import { randomUUID } from 'node:crypto';
import { nanoid } from 'nanoid';
import { insertJob } from '../db/job-changes.ts';
import type { JobLimits } from '../db/job-types.ts';
import { countQueued, findByIdempotencyKey, type JobRow } from '../db/jobs.ts';
import { type Client, inTransaction, type Pool } from '../db/pool.ts';
import { type Boss, bossDatabase, QUEUE, sessionOrderKey } from '../db/queue.ts';
import { touchSession } from '../db/sessions.ts';
import { readTenant, type Tenant } from '../db/tenants.ts';
import { monthUsage } from '../db/usage.ts';
import { Problem } from '../errors.ts';
import { canonicalSha256 } from './canonical.ts';
import { tenantLock } from './locks.ts';
import type { JobBody } from './types.ts';
import { JOBS_CHANNEL, queuedPayload } from './wakes.ts';

const LIMITS: readonly (keyof JobLimits)[] = [
  'memoryBytes',
  'pids',
  'cpuPercent',
  'wallMs',
  'outputBytes',
  'diskBytes',
];
const QUEUE_FULL_RETRY_S = 5;

export interface AdmissionDeps {
  pool: Pool;
  boss: Boss;
  /** Names this daemon in its notifications: it wakes itself. */
  self: string;
  /** Engines of this machine; null: not known yet. */
  engines(): ReadonlySet<string> | null;
}

/**
 * Adds the job, or returns the one that the same key and body made before (`created: false`).
 * Throws Problem DJ_NOT_FOUND, DJ_IDEMPOTENCY_MISMATCH, DJ_LIMIT_TOO_HIGH, DJ_ENGINE_UNAVAILABLE, DJ_BUDGET_SPENT
 * or DJ_QUEUE_FULL.
 */
export function admitJob(
  { pool, boss, self, engines }: AdmissionDeps,
  body: JobBody,
  idempotencyKey: string | null,
): Promise<{ row: JobRow; created: boolean }> {
  const bodySha256 = canonicalSha256(body);
  // Locks: the tenant's advisory lock, alone. It puts admissions of one tenant in a row, so that one key makes one job
  // and max_queued is exact, without holding up an UPDATE of the tenant.
  const lock = tenantLock(body.tenantId);
  return inTransaction(
    pool,
    async (client) => {
      const [tenant, queued] = await Promise.all([
        readTenant(client, body.tenantId),
        countQueued(client, body.tenantId),
      ]);
      if (tenant === null) throw new Problem('DJ_NOT_FOUND', 'there is no such tenant');
      if (idempotencyKey !== null) {
        const earlier = await findByIdempotencyKey(client, tenant.id, idempotencyKey);
        if (earlier !== null) return { row: sameBody(earlier, bodySha256), created: false };
      }
      checkLimits(tenant, body.limits ?? {});
      checkEngine(tenant, engines());
      await checkBudget(client, tenant);
      if (queued >= tenant.maxQueued) {
        throw new Problem('DJ_QUEUE_FULL', `${tenant.maxQueued} jobs of this tenant wait already`, {
          headers: { 'retry-after': String(QUEUE_FULL_RETRY_S) },
        });
      }
      return {
        row: await addJob(client, { boss, self }, body, { bodySha256, idempotencyKey }),
        created: true,
      };
    },
    lock,
  );
}

async function addJob(
  client: Client,
  { boss, self }: Pick<AdmissionDeps, 'boss' | 'self'>,
  body: JobBody,
  { bodySha256, idempotencyKey }: { bodySha256: Buffer; idempotencyKey: string | null },
): Promise<JobRow> {
  const { tenantId, limits = {}, metadata, prompt, images, systemPrompt, model, tools, sandboxMode } = body;
  const jobId = `job_${nanoid()}`;
  const sessionId = body.sessionId ?? `ses_${nanoid()}`;
  const queueId = randomUUID();
  const session = touchSession(client, tenantId, sessionId);
  const job = insertJob(client, {
    jobId,
    tenantId,
    sessionId,
    queueId,
    idempotencyKey,
    bodySha256,
    payload: JSON.parse(JSON.stringify({ prompt, images, systemPrompt, tools, sandboxMode })),
    model: model ?? null,
    requestedLimits: limits,
    metadata: metadata ?? null,
  });
  const told = client.query('select pg_notify($1, $2)', [JOBS_CHANNEL, queuedPayload(self)]);
  // One round trip: the server runs them in this order, and after one that fails none.
  const [row] = await Promise.all([job, session, told]);
  await boss.send(
    QUEUE,
    { jobId },
    {
      id: queueId,
      singletonKey: sessionOrderKey(tenantId, sessionId),
      group: { id: tenantId },
      db: bossDatabase(client),
    },
  );
  return row;
}

function sameBody(earlier: JobRow, bodySha256: Buffer): JobRow {
  if (earlier.bodySha256.equals(bodySha256)) return earlier;
  throw new Problem('DJ_IDEMPOTENCY_MISMATCH', `this Idempotency-Key belongs to ${earlier.jobId}`, {
    extra: { jobId: earlier.jobId },
  });
}

function checkLimits(tenant: Tenant, asked: Partial<JobLimits>): void {
  for (const limit of LIMITS) {
    const value = asked[limit];
    if (value !== undefined && value > tenant[limit]) {
      throw new Problem(
        'DJ_LIMIT_TOO_HIGH',
        `${limit} is ${value}, the tenant has at most ${tenant[limit]}`,
        {
          extra: { limit, asked: value, atMost: tenant[limit] },
        },
      );
    }
  }
}

function checkEngine(tenant: Tenant, engines: ReadonlySet<string> | null): void {
  if (engines === null || engines.has(tenant.wbbEngine)) return;
  throw new Problem(
    'DJ_ENGINE_UNAVAILABLE',
    `the engine ${tenant.wbbEngine} is not installed on this machine`,
  );
}

async function checkBudget(client: Client, tenant: Tenant): Promise<void> {
  if (tenant.monthlyTokens === null) return;
  const { totalTokens, monthEndsInS } = await monthUsage(client, tenant.id);
  if (totalTokens < tenant.monthlyTokens) return;
  throw new Problem(
    'DJ_BUDGET_SPENT',
    `${totalTokens} of ${tenant.monthlyTokens} tokens of this month are spent`,
    { headers: { 'retry-after': String(monthEndsInS) } },
  );
}

/** What the job may use: what it asked for, never more than the tenant has now. */
export function grantLimits(tenant: Tenant, asked: Partial<JobLimits>): JobLimits {
  const entries = LIMITS.map(
    (limit) => [limit, Math.min(asked[limit] ?? tenant[limit], tenant[limit])] as const,
  );
  return Object.fromEntries(entries) as unknown as JobLimits;
}
