// The advisory locks of the jobs side: spaces of the two-key form, fixed for good.
import { createHash } from 'node:crypto';

/** Claims, of all machines. */
export const CLAIM_LOCK = { space: 0x646a_0002, key: 0 };

/** Admissions of one tenant. Two tenants may share a lock; then they wait for each other and nothing worse. */
export function tenantLock(tenantId: string): { space: number; key: number } {
  return { space: 0x646a_0001, key: createHash('sha256').update(tenantId).digest().readInt32BE(0) };
}
