// Stores one attempt's lines in Postgres while it runs: reads the spool at its own pace, so neither the job nor any
// reader ever waits for the database. Returns with the closing line stored.
import { setTimeout as sleep } from 'node:timers/promises';
import { promisify } from 'node:util';
import { constants, zstdCompress } from 'node:zlib';
import type { Pool } from '../db/pool.ts';
import { insertSegment, lastStoredSeq } from '../db/segments.ts';
import { type Closing, LF, lastLineStart, seqAt } from './event-line.ts';
import { openTail, type SpoolTail } from './tail.ts';
import type { UntilDone } from './until-done.ts';

const compress = promisify(zstdCompress);
const CHUNK_BYTES = 512 * 1024;
/** Lines of a slow job wait at most this long before they are stored. */
const FLUSH_MS = 10_000;
/** How often a spool that is not there is looked for. */
const LOOK_MS = 500;

export interface AttemptToStore {
  jobId: string;
  attempt: number;
  path: string;
  signal: AbortSignal;
  /** Asked when the spool is not there: true when it never will be. */
  isGone(): boolean;
}

/** Null: the spool is gone and will not come. Throws the signal's reason when aborted. */
export async function storeAttempt(
  db: { pool: Pool; untilDone: UntilDone },
  attempt: AttemptToStore,
): Promise<Closing | null> {
  const { jobId, signal } = attempt;
  const stored = await db.untilDone(signal, () => lastStoredSeq(db.pool, jobId, attempt.attempt));
  for (;;) {
    signal.throwIfAborted();
    // The last stored line is read again: it may be the closing one, of a row that was not closed any more.
    const opened = await openTail(attempt.path, attempt, Math.max(0, stored - 1));
    if (opened !== null) {
      try {
        return await storeTail(db, attempt, opened.tail, stored);
      } finally {
        await opened.tail.close();
      }
    }
    if (attempt.isGone()) return null;
    await sleep(LOOK_MS, undefined, { signal }).catch(() => signal.throwIfAborted());
  }
}

async function storeTail(
  db: { pool: Pool; untilDone: UntilDone },
  { jobId, attempt, signal }: AttemptToStore,
  tail: SpoolTail,
  stored: number,
): Promise<Closing> {
  let waiting: Buffer[] = [];
  let bytes = 0;
  let sinceMs = 0;
  const flush = async (): Promise<void> => {
    if (bytes === 0) return;
    const lines = waiting.length === 1 ? (waiting[0] as Buffer) : Buffer.concat(waiting);
    const segment = {
      jobId,
      attempt,
      firstSeq: seqAt(lines, 0),
      lastSeq: seqAt(lines, lastLineStart(lines)),
      rawBytes: lines.length,
      data: await compress(lines, {
        // Tables of the chunk's size instead of a window of megabytes.
        pledgedSrcSize: lines.length,
        params: { [constants.ZSTD_c_compressionLevel]: 3 },
      }),
    };
    await db.untilDone(signal, () => insertSegment(db.pool, segment));
    waiting = [];
    bytes = 0;
  };
  for (;;) {
    const read = await tail.read();
    const lines = read === null ? null : linesAfter(read, stored);
    if (lines !== null) {
      if (bytes === 0) sinceMs = Date.now();
      waiting.push(lines);
      bytes += lines.length;
    }
    if (tail.closing !== null || bytes >= CHUNK_BYTES || (bytes > 0 && Date.now() - sinceMs >= FLUSH_MS)) {
      await flush();
    }
    if (tail.closing !== null) return tail.closing;
    if (lines === null) await tail.changed(signal);
    signal.throwIfAborted();
  }
}

/** Without the first lines whose number is at most `seq`. */
function linesAfter(lines: Buffer, seq: number): Buffer {
  let at = 0;
  while (at < lines.length && seqAt(lines, at) <= seq) at = lines.indexOf(LF, at) + 1;
  return lines.subarray(at);
}
