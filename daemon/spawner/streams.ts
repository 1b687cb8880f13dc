// Reads a program's streams to their end and knows how long nothing has come. Never waits for an end that a
// descendant holds open: the caller decides how long quiet is long enough.
import type { Readable } from 'node:stream';
import { setTimeout as sleep } from 'node:timers/promises';
import { MAX_LINE_BYTES } from '../../worker/protocol.ts';
import { blockOf } from './block-pool.ts';
import { type EventLines, MAX_REJECTED_LINES } from './event-lines.ts';
import { createFramer } from './frame.ts';

/** Shared by the readers of one attempt. */
export interface Activity {
  /** Chunks that are being written right now. */
  busy: number;
  /** When the last chunk was done, in milliseconds of `performance.now()`. */
  atMs: number;
}

export function newActivity(): Activity {
  return { busy: 0, atMs: performance.now() };
}

/** Errors of a stream that was closed under its reader: what came before is kept. */
const CUT = new Set(['ERR_STREAM_PREMATURE_CLOSE', 'ECONNRESET', 'EPIPE']);

/**
 * Hands every chunk on, one after the other: while one is being written the stream is not read. Ends with the stream,
 * or when `take` says false; then, and when `take` rejects, the stream is destroyed.
 */
export async function readChunks(
  stream: Readable,
  activity: Activity,
  take: (chunk: Buffer) => Promise<boolean>,
): Promise<void> {
  let failure: unknown;
  try {
    for await (const chunk of stream as AsyncIterable<Buffer>) {
      activity.busy += 1;
      try {
        if (!(await take(chunk))) return;
      } catch (error) {
        failure = error;
        throw error;
      } finally {
        activity.busy -= 1;
        activity.atMs = performance.now();
      }
    }
  } catch (error) {
    if (error === failure || !CUT.has(String((error as NodeJS.ErrnoException).code))) throw error;
  }
}

export interface EventSink {
  lines: EventLines;
  append(lines: Buffer): Promise<void>;
  maxBytes: number;
  /** More than `maxBytes` came: reading has ended and the program's stdout is closed. */
  onLimit(): void;
  /** Too many lines were no events: the same. */
  onNoise(): void;
}

/** Takes events from stdout until its end. Resolves with the number of bytes read; rejects when `append` does. */
export function takeEvents(
  stdout: Readable,
  activity: Activity,
  sink: EventSink,
): { bytes(): number; done: Promise<void> } {
  const { lines } = sink;
  const framer = createFramer(MAX_LINE_BYTES);
  let bytes = 0;
  let dropped = 0;

  async function take(chunk: Buffer): Promise<boolean> {
    bytes += chunk.length;
    if (bytes > sink.maxBytes) {
      sink.onLimit();
      return false;
    }
    const block = framer.push(chunk);
    for (; dropped < framer.dropped; dropped += 1)
      lines.reject(`a line has more than ${MAX_LINE_BYTES} bytes`);
    await admit(block);
    if (lines.state.rejectedLines <= MAX_REJECTED_LINES) return true;
    sink.onNoise();
    return false;
  }

  async function admit(block: Buffer | null): Promise<void> {
    const text = block === null ? null : lines.take(block);
    if (text === null) return;
    const { bytes, release } = blockOf(text);
    await sink.append(bytes).finally(release);
  }

  const done = readChunks(stdout, activity, take).then(() => admit(framer.flush()));
  return { bytes: () => bytes, done };
}

/** Waits for the readers to end, or until nothing has come for `idleMs`, at most `maxMs`. True when they ended. */
export async function drain(
  readers: Promise<unknown>,
  activity: Activity,
  limits: { idleMs: number; maxMs: number },
): Promise<boolean> {
  let ended = false;
  const end = readers.then(
    () => {
      ended = true;
    },
    () => {
      ended = true;
    },
  );
  const beganMs = performance.now();
  const stepMs = Math.max(5, Math.min(50, limits.idleMs / 4));
  for (;;) {
    await Promise.race([end, sleep(stepMs)]);
    if (ended) return true;
    const nowMs = performance.now();
    const quietMs = nowMs - Math.max(activity.atMs, beganMs);
    if (activity.busy === 0 && quietMs >= limits.idleMs) return false;
    if (nowMs - beganMs >= limits.maxMs) return false;
  }
}
