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

/** An empty window: it holds at most about 50 KiB and one chunk. */
export function createOutputWindow(): OutputWindow {
  const head: Buffer[] = [];
  const tail: Buffer[] = [];
  let headBytes = 0;
  let tailBytes = 0;
  let totalBytes = 0;
  return {
    push(chunk) {
      totalBytes += chunk.length;
      const forHead = chunk.subarray(0, HEAD_BYTES - headBytes);
      if (forHead.length > 0) {
        // Copies: a slice would keep the whole chunk in memory.
        head.push(Buffer.from(forHead));
        headBytes += forHead.length;
      }
      const rest = chunk.subarray(forHead.length);
      if (rest.length === 0) return;
      tail.push(rest.length > HALF ? rest.subarray(rest.length - HALF) : rest);
      tailBytes += Math.min(rest.length, HALF);
      while (tailBytes - (tail[0]?.length ?? 0) >= HALF) tailBytes -= tail.shift()?.length ?? 0;
    },
    text() {
      const kept = Buffer.concat([...head, ...tail]);
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
