// Claims the next job for this machine: one short transaction that picks fairly, takes the queue entry, reads the
// tenant's engine and stamps it on the row.
import { claimJob } from '../db/job-changes.ts';
import { type JobRow, listWaitingTenants, readJob, type WaitingTenant } from '../db/jobs.ts';
import { type Client, inTransaction, type Pool } from '../db/pool.ts';
import { type Boss, bossDatabase, QUEUE } from '../db/queue.ts';
import { readTenantOfJob } from '../db/tenants.ts';
import { grantLimits } from './admission.ts';
import { CLAIM_LOCK } from './locks.ts';

/** What one claim found. Whatever comes later wakes the dispatcher by itself. */
export interface Claim {
  /** Null: nothing can run now. */
  row: JobRow | null;
  /** Something else could run now, if this machine has room. */
  more: boolean;
  /** Something waits that may run when another job ends. */
  left: boolean;
}

/**
 * Claims a row if one can run now. Among tenants below their max_running those that run least come first, and among
 * those the oldest entry, so neither a long queue nor a full tenant stands in another's way.
 */
export function claimNext(pool: Pool, boss: Boss, node: string): Promise<Claim> {
  // Locks: the claim lock, then (by pg-boss, skipping locked ones) the entry, then the job's row. One claim at a time
  // over all machines makes max_running exact; the whole transaction takes a few milliseconds.
  return inTransaction(
    pool,
    async (client) => {
      const waiting = await listWaitingTenants(client);
      let open = waiting.filter(({ running, maxRunning }) => running < maxRunning);
      while (open.length > 0) {
        const least = Math.min(...open.map(({ running }) => running));
        const chosen = new Set(
          open.filter(({ running }) => running === least).map(({ tenantId }) => tenantId),
        );
        const row = await takeEntry(client, boss, node, waiting, chosen);
        if (row === 'again') continue;
        if (row !== null) {
          const rest = waiting.filter(({ tenantId, queued }) => tenantId !== row.tenantId || queued > 1);
          return { row, more: rest.some((one) => mayRun(one, row.tenantId)), left: rest.length > 0 };
        }
        // All that these have queued waits for an earlier job of its session.
        open = open.filter(({ tenantId }) => !chosen.has(tenantId));
      }
      return { row: null, more: false, left: waiting.length > 0 };
    },
    CLAIM_LOCK,
  );
}

/** Whether the tenant has room for another job, `claimed` being the one that has just got one more. */
function mayRun({ tenantId, running, maxRunning }: WaitingTenant, claimed: string): boolean {
  return running + (tenantId === claimed ? 1 : 0) < maxRunning;
}

async function takeEntry(
  client: Client,
  boss: Boss,
  node: string,
  waiting: readonly WaitingTenant[],
  chosen: ReadonlySet<string>,
): Promise<JobRow | null | 'again'> {
  const db = bossDatabase(client);
  const ignoreGroups = waiting.map(({ tenantId }) => tenantId).filter((id) => !chosen.has(id));
  const [entry] = await boss.fetch<{ jobId: string }>(QUEUE, { db, ignoreGroups });
  if (entry === undefined) return null;
  const { jobId } = entry.data;
  const [queued, tenant] = await Promise.all([readJob(client, jobId), readTenantOfJob(client, jobId)]);
  if (queued === null || tenant === null || queued.state !== 'queued') {
    // Ended while it waited, or erased: the row decides, the entry is only its place in the queue.
    await boss.complete(QUEUE, entry.id, {}, { db });
    return 'again';
  }
  // Queued since the tenants were listed, by one of whom nothing was known then: it has its turn at the next claim.
  if (!chosen.has(tenant.id)) throw new LateArrival();
  const { network, totalMemoryBytes, totalPids, totalCpuPercent } = tenant;
  const claimed = await claimJob(client, queued.jobId, {
    node,
    engine: tenant.wbbEngine,
    granted: {
      limits: grantLimits(tenant, queued.requestedLimits),
      totals: {
        ...(totalMemoryBytes === null ? {} : { memoryBytes: totalMemoryBytes }),
        ...(totalPids === null ? {} : { pids: totalPids }),
        ...(totalCpuPercent === null ? {} : { cpuPercent: totalCpuPercent }),
      },
      network,
    },
  });
  if (claimed === null) throw new Error(`${queued.jobId} left the state queued under the claim lock`);
  return claimed;
}

/** Rolls the claim back, entry included; the dispatcher simply claims again. */
export class LateArrival extends Error {}
