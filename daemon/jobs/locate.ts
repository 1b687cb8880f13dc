// Finds a line by its number in a file of numbered lines, by binary search over line starts. Reads only.
import type { FileHandle } from 'node:fs/promises';
import { LF } from './event-line.ts';

const BLOCK_BYTES = 64 * 1024;
/** Below this, one read and a linear scan are cheaper than more steps. */
const SCAN_BYTES = 256 * 1024;

export interface Place {
  /** Byte after the last line whose number is at most the one asked for. */
  offset: number;
  /** That line's number, 0 when there is none. */
  seq: number;
}

/**
 * Where the line after number `seq` begins (or will begin) in a file whose lines carry rising numbers. `numberAt` reads
 * the number of the line that begins at a position of a buffer. A torn last line counts as not there.
 */
export async function placeAfter(
  file: FileHandle,
  seq: number,
  numberAt: (bytes: Buffer, at: number) => number,
): Promise<Place> {
  const { size } = await file.stat();
  let low: Place = { offset: 0, seq: 0 };
  let high = await lineStart(file, size);
  while (high - low.offset > SCAN_BYTES) {
    const middle = low.offset + Math.floor((high - low.offset) / 2);
    const start = await lineStart(file, middle);
    const found = numberAt(await readAt(file, start, 64), 0);
    if (found >= 0 && found <= seq) low = { offset: await nextLine(file, middle, high), seq: found };
    else high = start;
  }
  const base = low.offset;
  const rest = await readAt(file, base, high - base);
  for (let at = 0; at < rest.length; ) {
    const found = numberAt(rest, at);
    if (found > seq) break;
    const next = rest.indexOf(LF, at) + 1;
    if (next === 0) break;
    at = next;
    low = { offset: base + next, seq: found };
  }
  return low;
}

/** Start of the line that holds `position`: the byte after the last LF before it. */
async function lineStart(file: FileHandle, position: number): Promise<number> {
  for (let end = position; end > 0; ) {
    const from = Math.max(0, end - BLOCK_BYTES);
    const found = (await readAt(file, from, end - from)).lastIndexOf(LF);
    if (found >= 0) return from + found + 1;
    end = from;
  }
  return 0;
}

async function nextLine(file: FileHandle, position: number, limit: number): Promise<number> {
  for (let from = position; from < limit; from += BLOCK_BYTES) {
    const found = (await readAt(file, from, Math.min(BLOCK_BYTES, limit - from))).indexOf(LF);
    if (found >= 0) return from + found + 1;
  }
  return limit;
}

async function readAt(file: FileHandle, position: number, length: number): Promise<Buffer> {
  const buffer = Buffer.allocUnsafe(length);
  let filled = 0;
  while (filled < length) {
    const { bytesRead } = await file.read(buffer, filled, length - filled, position + filled);
    if (bytesRead === 0) break;
    filled += bytesRead;
  }
  return buffer.subarray(0, filled);
}
