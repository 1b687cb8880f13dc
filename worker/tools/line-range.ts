// Finds a range of lines in a file without holding more than the range. A line ends with LF or with the file.
import type { FileHandle } from 'node:fs/promises';

const CHUNK_BYTES = 256 * 1024;

export interface LineRange {
  /** The lines as they are in the file, their endings included; cut at `maxBytes`. */
  bytes: Buffer;
  /** True when the file goes on after `bytes`. */
  more: boolean;
  /** Lines skipped before the range; all lines of the file when it ends before the range. */
  linesBefore: number;
}

/** Reads `lines` lines from line `firstLine` (from 1) on. `checkpoint` is called between reads and may throw. */
export async function readLines(
  handle: FileHandle,
  range: { firstLine: number; lines: number; maxBytes: number; checkpoint: () => void },
): Promise<LineRange> {
  const buffer = Buffer.allocUnsafe(CHUNK_BYTES);
  const pieces: Buffer[] = [];
  let linesBefore = 0;
  let linesTaken = 0;
  let taken = 0;
  let endsWithBreak = true;
  for (;;) {
    range.checkpoint();
    const { bytesRead } = await handle.read(buffer, 0, CHUNK_BYTES, null);
    if (bytesRead === 0) {
      // The last line counts also without its LF.
      if (taken === 0 && !endsWithBreak) linesBefore++;
      return { bytes: Buffer.concat(pieces), more: false, linesBefore };
    }
    const chunk = buffer.subarray(0, bytesRead);
    endsWithBreak = chunk[bytesRead - 1] === 0x0a;
    let at = 0;
    while (linesBefore < range.firstLine - 1 && at < bytesRead) {
      const lineBreak = chunk.indexOf(0x0a, at);
      if (lineBreak === -1) at = bytesRead;
      else {
        linesBefore++;
        at = lineBreak + 1;
      }
    }
    if (at === bytesRead) continue;
    let end = at;
    while (linesTaken < range.lines && end < bytesRead) {
      const lineBreak = chunk.indexOf(0x0a, end);
      if (lineBreak === -1) end = bytesRead;
      else {
        linesTaken++;
        end = lineBreak + 1;
      }
    }
    const piece = chunk.subarray(at, Math.min(end, at + range.maxBytes - taken));
    pieces.push(Buffer.from(piece));
    taken += piece.length;
    if (piece.length < bytesRead - at) return { bytes: Buffer.concat(pieces), more: true, linesBefore };
    const done = linesTaken === range.lines || taken === range.maxBytes;
    if (!done) continue;
    const { bytesRead: moreBytes } = await handle.read(buffer, 0, 1, null);
    return { bytes: Buffer.concat(pieces), more: moreBytes > 0, linesBefore };
  }
}
