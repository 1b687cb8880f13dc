// Ships a session's record from the spawner's file to Postgres, whole lines only and each once.
import { type FileHandle, open } from 'node:fs/promises';
import { inTransaction, type Pool } from '../db/pool.ts';
import { insertRecords, type SessionRecord } from '../db/session-records.ts';
import { moveShipped, readShipped, type ShippedPosition } from '../db/sessions.ts';
import type { Logger } from '../log.ts';
import { LF } from './event-line.ts';
import { sessionRecordPath } from './paths.ts';

const BATCH_BYTES = 1024 * 1024;

export interface Session {
  tenantId: string;
  sessionId: string;
}

/** Stores what the file has beyond the shipped position. A session without a file has nothing to ship. */
export async function shipRecords(
  pool: Pool,
  stateDir: string,
  session: Session,
  log: Logger,
): Promise<void> {
  const shipped = await readShipped(pool, session.tenantId, session.sessionId);
  if (shipped === null) return;
  let file: FileHandle;
  try {
    file = await open(sessionRecordPath(stateDir, session.tenantId, session.sessionId), 'r');
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code === 'ENOENT') return;
    throw error;
  }
  try {
    let from: ShippedPosition = shipped;
    for (let length = BATCH_BYTES; ; ) {
      const block = await readBlock(file, from.bytes, length);
      const records = parseRecords(block, session, log);
      const to: ShippedPosition = {
        seq: records.at(-1)?.seq ?? from.seq,
        bytes: from.bytes + block.lastIndexOf(LF) + 1,
      };
      if (to.bytes > from.bytes) {
        if (!(await store(pool, session, records, from, to))) return;
        if (block.length < length) return;
        from = to;
        length = BATCH_BYTES;
      } else {
        if (block.length < length) return;
        // One record is longer than the block.
        length *= 2;
      }
    }
  } finally {
    await file.close();
  }
}

function store(
  pool: Pool,
  session: Session,
  records: readonly SessionRecord[],
  from: ShippedPosition,
  to: ShippedPosition,
): Promise<boolean> {
  return inTransaction(pool, async (client) => {
    // Locks: the session's row first; whoever comes second finds the position moved and leaves it to the first.
    if (!(await moveShipped(client, session, from, to))) return false;
    await insertRecords(client, session, records);
    return true;
  });
}

/**
 * At most `length` bytes; fewer: the file had no more. The buffer is as large as what there is: a megabyte for each
 * short record kept the garbage collector busy for a quarter of djinnd's time.
 */
async function readBlock(file: FileHandle, position: number, length: number): Promise<Buffer> {
  const { size } = await file.stat();
  const buffer = Buffer.allocUnsafe(Math.max(0, Math.min(length, size - position)));
  if (buffer.length === 0) return buffer;
  const { bytesRead } = await file.read(buffer, 0, buffer.length, position);
  return buffer.subarray(0, bytesRead);
}

/** The whole lines of a block. The spawner has checked each record; only its number is taken here. */
function parseRecords(block: Buffer, session: Session, log: Logger): SessionRecord[] {
  const records: SessionRecord[] = [];
  for (let at = 0, end = block.indexOf(LF); end >= 0; at = end + 1, end = block.indexOf(LF, at)) {
    const line = block.subarray(at, end);
    const seq = recordSeq(line);
    if (seq > 0) records.push({ seq, line });
    else
      log.warn({ ...session, bytes: line.length }, 'a line of a session record has no number; not shipped');
  }
  return records;
}

function recordSeq(line: Buffer): number {
  const quick = /^\{"v":\d+,"seq":(\d{1,15}),/.exec(line.toString('latin1', 0, 64));
  if (quick !== null) return Number(quick[1]);
  try {
    const seq = (JSON.parse(line.toString('utf8')) as { seq?: unknown }).seq;
    return Number.isSafeInteger(seq) ? (seq as number) : -1;
  } catch {
    return -1;
  }
}
