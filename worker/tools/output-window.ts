// Keeps the head and the tail of an output of any size in bounded memory and counts what lies between.
import { headLength, MAX_TEXT_BYTES, tailStart } from './text-limit.ts';

const HALF = MAX_TEXT_BYTES / 2;
/** A little more than is shown: whether a cut splits a code point is seen from the byte after it. */
const HEAD_BYTES = HALF + 4;

export interface OutputWindow {
  push(chunk: Buffer): void;
  /** The whole output, or its head and tail with a line between that says how many bytes were dropped. */
  text(): string;
}

/** An empty window: it holds about 50 KiB, whatever is pushed, and keeps no chunk. */
export function createOutputWindow(): OutputWindow {
  const head = Buffer.allocUnsafe(HEAD_BYTES);
  let tail: Buffer | null = null;
  let headBytes = 0;
  let tailBytes = 0;
  let totalBytes = 0;

  function keepTail(rest: Buffer): void {
    tail ??= Buffer.allocUnsafe(HALF);
    const kept = rest.subarray(Math.max(0, rest.length - HALF));
    const gone = Math.max(0, tailBytes + kept.length - HALF);
    tail.copyWithin(0, gone, tailBytes);
    tailBytes += kept.copy(tail, tailBytes - gone) - gone;
  }

  return {
    push(chunk) {
      totalBytes += chunk.length;
      const taken = chunk.copy(head, headBytes);
      headBytes += taken;
      if (taken < chunk.length) keepTail(chunk.subarray(taken));
    },
    text() {
      const kept = Buffer.concat([
        head.subarray(0, headBytes),
        tail?.subarray(0, tailBytes) ?? Buffer.alloc(0),
      ]);
      if (kept.length === totalBytes && headLength(kept, MAX_TEXT_BYTES) === kept.length) {
        return kept.toString('utf8');
      }
      const first = kept.subarray(0, headLength(kept.subarray(0, HEAD_BYTES), HALF));
      const last = kept.subarray(Math.max(first.length, tailStart(kept, HALF)));
      const dropped = totalBytes - first.length - last.length;
      return `${first.toString('utf8')}\n[… ${dropped} bytes dropped here …]\n${last.toString('utf8')}`;
    },
  };
}
