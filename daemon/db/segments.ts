// The event_segments table: a job's event lines in compressed chunks, one row per chunk.
import type { Queryable } from './pool.ts';

export interface Segment {
  jobId: string;
  attempt: number;
  firstSeq: number;
  lastSeq: number;
  rawBytes: number;
  /** zstd of whole LF-terminated lines. */
  data: Buffer;
}

/**
 * Stores one chunk. The same chunk again is no error: a writer may repeat after an unclear answer. Of two that begin with
 * the same line the longer one stays: a killed writer's last statement may come through after its successor has begun.
 */
export async function insertSegment(db: Queryable, segment: Segment): Promise<void> {
  await db.query(
    `insert into event_segments (job_id, attempt, first_seq, last_seq, raw_bytes, data)
     values ($1, $2, $3, $4, $5, $6) on conflict (job_id, attempt, first_seq) do update
       set last_seq = excluded.last_seq, raw_bytes = excluded.raw_bytes, data = excluded.data
       where excluded.last_seq > event_segments.last_seq`,
    [segment.jobId, segment.attempt, segment.firstSeq, segment.lastSeq, segment.rawBytes, segment.data],
  );
}

/** The chunk that holds the line after `afterSeq`, or null when that line is not stored. */
export async function readSegmentAfter(
  db: Queryable,
  jobId: string,
  attempt: number,
  afterSeq: number,
): Promise<Omit<Segment, 'jobId' | 'attempt'> | null> {
  const { rows } = await db.query<Omit<Segment, 'jobId' | 'attempt'>>(
    `select first_seq as "firstSeq", last_seq as "lastSeq", raw_bytes as "rawBytes", data
     from event_segments where job_id = $1 and attempt = $2 and last_seq > $3 order by first_seq limit 1`,
    [jobId, attempt, afterSeq],
  );
  return rows[0] ?? null;
}

/** The last stored seq of an attempt, 0 when nothing is stored. */
export async function lastStoredSeq(db: Queryable, jobId: string, attempt: number): Promise<number> {
  const { rows } = await db.query<{ last: number }>(
    `select last_seq as last from event_segments where job_id = $1 and attempt = $2
     order by first_seq desc limit 1`,
    [jobId, attempt],
  );
  return rows[0]?.last ?? 0;
}
