// A program's stderr on its way into the spawner's log: one string field per line, bounded. Trusts nothing in it.
import type { Logger } from 'pino';

const LF = 0x0a;
const MAX_LINE_BYTES = 8 * 1024;
/** What a line costs in the log beside its text: time, tenant, job. */
const RECORD_BYTES = 200;

export interface StderrLog {
  push(chunk: Buffer): void;
  /** Logs an unfinished last line and how much was dropped. */
  close(): void;
  readonly bytes: number;
  readonly droppedBytes: number;
}

export interface StderrBounds {
  /** Bytes that one job may put into the log, each line counted with what surrounds it there. */
  totalBytes: number;
  /** Bytes per second, after a burst of four times as many. */
  bytesPerSecond: number;
}

const BOUNDS: StderrBounds = { totalBytes: 1024 * 1024, bytesPerSecond: 64 * 1024 };

/** `log` carries the tenant and the job. Control bytes are escaped by the log's JSON. */
export function createStderrLog(log: Logger, bounds: StderrBounds = BOUNDS, now = Date.now): StderrLog {
  const burst = bounds.bytesPerSecond * 4;
  let bytes = 0;
  let droppedBytes = 0;
  let logged = 0;
  let allowance = burst;
  let filledAt = now();
  let full = false;
  let line: Buffer[] = [];
  let lineBytes = 0;

  function add(part: Buffer): void {
    const kept = part.subarray(0, Math.max(0, MAX_LINE_BYTES - lineBytes));
    droppedBytes += part.length - kept.length;
    if (kept.length === 0) return;
    // Copied: the chunk is the stream's, and a program that writes byte by byte must not keep many of them.
    if (line.length >= 64) line = [Buffer.concat(line)];
    line.push(Buffer.from(kept));
    lineBytes += kept.length;
  }

  function emit(): void {
    if (lineBytes === 0) return;
    const at = now();
    allowance = Math.min(burst, allowance + ((at - filledAt) / 1000) * bounds.bytesPerSecond);
    filledAt = at;
    const cost = RECORD_BYTES + lineBytes;
    full ||= logged + cost > bounds.totalBytes;
    if (full || allowance < cost) {
      droppedBytes += lineBytes;
    } else {
      allowance -= cost;
      logged += cost;
      log.info({ stderr: Buffer.concat(line).toString('utf8') }, 'program');
    }
    line = [];
    lineBytes = 0;
  }

  return {
    push(chunk) {
      bytes += chunk.length;
      if (full) {
        droppedBytes += chunk.length;
        return;
      }
      for (let at = 0; at < chunk.length; ) {
        const end = chunk.indexOf(LF, at);
        add(chunk.subarray(at, end < 0 ? chunk.length : end));
        if (end < 0) return;
        emit();
        at = end + 1;
      }
    },
    close() {
      emit();
      if (droppedBytes > 0) log.warn({ droppedBytes, bytes }, 'stderr of the program was cut');
    },
    get bytes() {
      return bytes;
    },
    get droppedBytes() {
      return droppedBytes;
    },
  };
}
