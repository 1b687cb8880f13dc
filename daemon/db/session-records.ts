// The session_records table: the record of each session, line by line and byte for byte.
import type { Queryable } from './pool.ts';

export interface SessionRecord {
  seq: number;
  /** The line without its LF. */
  line: Buffer;
}

/** Stores records; one that is there already stays. */
export async function insertRecords(
  db: Queryable,
  session: { tenantId: string; sessionId: string },
  records: readonly SessionRecord[],
): Promise<void> {
  if (records.length === 0) return;
  await db.query(
    `insert into session_records (tenant_id, session_id, seq, line)
     select $1, $2, r.seq, r.line from unnest($3::bigint[], $4::bytea[]) as r (seq, line)
     on conflict (tenant_id, session_id, seq) do nothing`,
    [session.tenantId, session.sessionId, records.map(({ seq }) => seq), records.map(({ line }) => line)],
  );
}

/** Records after `afterSeq` in order. */
export async function readRecords(
  db: Queryable,
  session: { tenantId: string; sessionId: string },
  afterSeq: number,
  limit: number,
): Promise<SessionRecord[]> {
  const { rows } = await db.query<SessionRecord>(
    `select seq, line from session_records
     where tenant_id = $1 and session_id = $2 and seq > $3 order by seq limit $4`,
    [session.tenantId, session.sessionId, afterSeq, limit],
  );
  return rows;
}
