// Event lines as bytes: their seq, the closing line of an attempt, the lines that djinnd itself writes. Pure.
import type { Outcome } from '../db/job-types.ts';
import type { JobRow } from '../db/jobs.ts';

export const LF = 0x0a;
const EVENT_PREFIX = Buffer.from('{"seq":');

/** The seq of the line that begins at `at`, or -1 when no event line begins there. */
export function seqAt(bytes: Buffer, at: number): number {
  return numberAfter(bytes, at, EVENT_PREFIX);
}

/** The digits after `prefix` at `at` as a number, -1 when there are none or the prefix is another. */
export function numberAfter(bytes: Buffer, at: number, prefix: Buffer): number {
  const digits = at + prefix.length;
  if (bytes.compare(prefix, 0, prefix.length, at, Math.min(digits, bytes.length)) !== 0) return -1;
  let value = 0;
  let end = digits;
  for (; end < bytes.length; end++) {
    const digit = (bytes[end] as number) - 0x30;
    if (digit < 0 || digit > 9) break;
    value = value * 10 + digit;
  }
  return end > digits && Number.isSafeInteger(value) ? value : -1;
}

/** Where the last whole line begins in a buffer that ends with LF. */
export function lastLineStart(lines: Buffer): number {
  return lines.length < 2 ? 0 : lines.lastIndexOf(LF, lines.length - 2) + 1;
}

/** The last line of an attempt: of the whole job, or asking for another attempt. */
export type Closing =
  | { kind: 'end'; seq: number; event: Record<string, unknown> & { outcome: Outcome } }
  | { kind: 'lost'; seq: number; event: Record<string, unknown> };

/**
 * Says whether the last line of `lines` closes the attempt. Only the spawner's own prefix counts, and then the whole
 * line is parsed; every other line costs one comparison of its first bytes.
 */
export function closingOf(lines: Buffer, jobId: string, attempt: number): Closing | null {
  const start = lastLineStart(lines);
  const head = lines.toString('latin1', start, Math.min(lines.length, start + 256));
  const match =
    /^\{"seq":(\d{1,16}),"ts":"[^"\\]*",("jobId":"[^"\\]*","attempt":\d+),"type":"(?:end|job)"/.exec(head);
  if (match === null || match[2] !== `"jobId":"${jobId}","attempt":${attempt}`) return null;
  let event: Record<string, unknown>;
  try {
    event = JSON.parse(lines.toString('utf8', start, lines.length)) as Record<string, unknown>;
  } catch {
    // Not a whole line of the spawner's: it closes nothing.
    return null;
  }
  const seq = Number(match[1]);
  if (event.type === 'end' && typeof event.outcome === 'string') {
    return { kind: 'end', seq, event: event as Record<string, unknown> & { outcome: Outcome } };
  }
  return event.type === 'job' && event.state === 'lost' ? { kind: 'lost', seq, event } : null;
}

/** The line before all others, cursor `0-0`. Made from the row, so it has the same bytes every time. */
export function queuedLine(row: Pick<JobRow, 'jobId' | 'sessionId' | 'createdAt'>): Buffer {
  const ts = row.createdAt.toISOString();
  return Buffer.from(
    `${JSON.stringify({ seq: 0, ts, jobId: row.jobId, attempt: 0, type: 'job', state: 'queued', sessionId: row.sessionId })}\n`,
  );
}

/** The attempt under which djinnd writes its own `end`: its cursor is `"<attempt>-1"`. */
export const endAttempt = (row: Pick<JobRow, 'attempt'>): number => Math.max(1, row.attempt);

/** The `end` of a job of which the spawner has accepted no attempt to end it. */
export function ownEndLine(
  row: Pick<JobRow, 'jobId' | 'attempt' | 'engine'>,
  outcome: Outcome,
  cause: { code: string; message: string },
): Buffer {
  const event = {
    seq: 1,
    ts: new Date().toISOString(),
    jobId: row.jobId,
    attempt: endAttempt(row),
    type: 'end',
    outcome,
    cause,
    exit: null,
    evidence: {},
    resources: {},
    enforcement: {},
    engine: row.engine,
  };
  return Buffer.from(`${JSON.stringify(event)}\n`);
}
