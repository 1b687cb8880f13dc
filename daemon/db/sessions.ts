// The sessions table: one row per conversation of a tenant, and how far its record has been shipped.
import type { Queryable } from './pool.ts';

/** Creates the session or notes that it has another job. */
export async function touchSession(db: Queryable, tenantId: string, sessionId: string): Promise<void> {
  await db.query(
    `insert into sessions (tenant_id, session_id) values ($1, $2)
     on conflict (tenant_id, session_id) do update set last_job_at = now()`,
    [tenantId, sessionId],
  );
}

export interface ShippedPosition {
  /** The last record that is stored. */
  seq: number;
  /** The byte of the session's file after that record. */
  bytes: number;
}

/** How far the session's file has been shipped; null when there is no such session. */
export async function readShipped(
  db: Queryable,
  tenantId: string,
  sessionId: string,
): Promise<ShippedPosition | null> {
  const { rows } = await db.query<ShippedPosition>(
    `select shipped_seq as seq, shipped_bytes as bytes from sessions where tenant_id = $1 and session_id = $2`,
    [tenantId, sessionId],
  );
  return rows[0] ?? null;
}

/** Moves the position on, only from where it was thought to be. False: somebody else shipped meanwhile. */
export async function moveShipped(
  db: Queryable,
  session: { tenantId: string; sessionId: string },
  from: ShippedPosition,
  to: ShippedPosition,
): Promise<boolean> {
  const { rowCount } = await db.query(
    `update sessions set shipped_seq = $4, shipped_bytes = $5
     where tenant_id = $1 and session_id = $2 and shipped_bytes = $3`,
    [session.tenantId, session.sessionId, from.bytes, to.seq, to.bytes],
  );
  return rowCount === 1;
}
