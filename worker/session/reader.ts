// Reads a session log from a descriptor: good records go to a callback, damage is collected, nothing is changed.
import { readSync } from 'node:fs';
import { parseRecord, type SessionRecord } from './record.ts';

export interface Damage {
  /** Byte offset of the line in the file. */
  offset: number;
  bytes: number;
  reason: string;
  /** The record before it, 0 at the start. */
  afterSeq: number;
}

export interface ReadLog {
  lastSeq: number;
  records: number;
  /** Bytes up to the end of the last whole line. */
  wholeBytes: number;
  /** A last record that is complete but for its newline. */
  missingNewline: boolean;
  /** A last line that is no record: it was being written when its writer died. */
  tornBytes: Buffer | null;
  damage: Damage[];
  /** The version of the first whole record of a later version, else null. */
  newer: number | null;
}

const CHUNK_BYTES = 256 * 1024;

/** A damaged record that claims to be further ahead than this says nothing about how the log is counted. */
const MAX_CLAIM_AHEAD = 10_000;

/** The number of a damaged but whole record: whoever keeps the log may have counted it. A torn one is not JSON. */
function claimedSeq(line: Buffer, lastSeq: number): number {
  try {
    const { seq } = JSON.parse(line.toString('utf8')) as { seq?: unknown };
    return Number.isSafeInteger(seq) && (seq as number) - lastSeq <= MAX_CLAIM_AHEAD ? (seq as number) : 0;
  } catch {
    return 0;
  }
}

/**
 * Reads to the end of file from the descriptor's position. Lines end in LF. A damaged line in the middle and a
 * `seq` that does not rise are left out and reported, and reading goes on. What to do about records of a later
 * version is the caller's to decide; nothing may be appended after them.
 */
export function readLog(fd: number, onRecord: (record: SessionRecord, line: Buffer) => void): ReadLog {
  const log: ReadLog = {
    lastSeq: 0,
    records: 0,
    wholeBytes: 0,
    missingNewline: false,
    tornBytes: null,
    damage: [],
    newer: null,
  };
  const take = (line: Buffer): boolean => {
    const parsed = parseRecord(line);
    const reason = parsed.ok ? (parsed.record.seq > log.lastSeq ? null : 'seq does not rise') : parsed.reason;
    if (reason !== null) {
      log.damage.push({ offset: log.wholeBytes, bytes: line.length, reason, afterSeq: log.lastSeq });
      if (!parsed.ok) log.newer ??= parsed.newer ?? null;
      log.lastSeq = Math.max(log.lastSeq, claimedSeq(line, log.lastSeq));
      return false;
    }
    if (parsed.ok) {
      log.lastSeq = parsed.record.seq;
      log.records += 1;
      onRecord(parsed.record, line);
    }
    return true;
  };
  let held: Buffer[] = [];
  for (;;) {
    const chunk = Buffer.allocUnsafe(CHUNK_BYTES);
    const count = readSync(fd, chunk, 0, CHUNK_BYTES, null);
    if (count === 0) break;
    let start = 0;
    for (let end = chunk.indexOf(10); end !== -1 && end < count; end = chunk.indexOf(10, start)) {
      const line = Buffer.concat([...held, chunk.subarray(start, end)]);
      held = [];
      if (line.length > 0) take(line);
      log.wholeBytes += line.length + 1;
      start = end + 1;
    }
    if (start < count) held.push(chunk.subarray(start, count));
  }
  const last = Buffer.concat(held);
  if (last.length > 0) {
    if (take(last)) log.missingNewline = true;
    else log.tornBytes = last;
  }
  return log;
}
