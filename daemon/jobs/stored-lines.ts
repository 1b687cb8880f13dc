// Reads an attempt's lines from their segments. One query per chunk and none in between: a stream holds no connection.
import { promisify } from 'node:util';
import { zstdDecompress } from 'node:zlib';
import type { Queryable } from '../db/pool.ts';
import { readSegmentAfter } from '../db/segments.ts';
import { LF, seqAt } from './event-line.ts';

const decompress = promisify(zstdDecompress);

/** The stored lines after `afterSeq`, as far as their chunk goes; null when there are none. */
export async function readStored(
  db: Queryable,
  jobId: string,
  attempt: number,
  afterSeq: number,
): Promise<{ lines: Buffer; lastSeq: number } | null> {
  const segment = await readSegmentAfter(db, jobId, attempt, afterSeq);
  if (segment === null) return null;
  const lines = await decompress(segment.data);
  const { lastSeq } = segment;
  return { lines: segment.firstSeq > afterSeq ? lines : lines.subarray(endOfLine(lines, afterSeq)), lastSeq };
}

/** Where the line after number `seq` begins. */
function endOfLine(lines: Buffer, seq: number): number {
  let at = 0;
  while (at < lines.length && seqAt(lines, at) <= seq) at = lines.indexOf(LF, at) + 1;
  return at;
}
