// Feeds one file of any size to a matcher, block by block.
import type { FileHandle } from 'node:fs/promises';
import { ToolError } from './define-tool.ts';
import type { Hit, Matcher } from './grep-thread.ts';
import { type Bounds, openInside } from './path-inside.ts';

const BLOCK_BYTES = 4 * 1024 * 1024;
/** A NUL among the first bytes makes a file binary, as for git and grep. */
const BINARY_PROBE_BYTES = 8000;

/** The hits of one file, at most `maxHits`, or why there are none. */
export async function searchFile(
  path: string,
  bounds: Bounds,
  matcher: Matcher,
  maxHits: number,
): Promise<Hit[] | 'binary' | 'unreadable'> {
  let handle: FileHandle;
  try {
    handle = await openInside(path, bounds);
  } catch {
    return 'unreadable'; // Gone, not permitted, no regular file or outside by now: counted by the caller.
  }
  try {
    return await searchHandle(handle, matcher, maxHits);
  } catch (error) {
    if (error instanceof ToolError) throw error;
    return 'unreadable';
  } finally {
    await handle.close();
  }
}

async function searchHandle(
  handle: FileHandle,
  matcher: Matcher,
  maxHits: number,
): Promise<Hit[] | 'binary'> {
  const { size } = await handle.stat();
  const found: Hit[] = [];
  let carried: Uint8Array = new Uint8Array(0);
  let firstLine = 1;
  for (let isFirst = true; ; isFirst = false) {
    const { block, ended } = await readBlock(handle, carried, Math.min(BLOCK_BYTES, size + 1));
    if (isFirst && block.subarray(0, BINARY_PROBE_BYTES).includes(0)) return 'binary';
    if (block.length === 0) return found;
    // A block ends with a line where it can; a line longer than a block is matched in pieces.
    const lastBreak = ended ? -1 : block.lastIndexOf(0x0a);
    const cut = lastBreak === -1 ? block.length : lastBreak + 1;
    carried = block.slice(cut);
    const { hits, lines } = await matcher.search(block.subarray(0, cut), firstLine, maxHits - found.length);
    found.push(...hits);
    firstLine += lines;
    if (ended || found.length >= maxHits) return found;
  }
}

/** Up to `maxBytes` more, after the bytes carried over. Memory of its own: it is handed to the thread. */
async function readBlock(
  handle: FileHandle,
  carried: Uint8Array,
  maxBytes: number,
): Promise<{ block: Uint8Array<ArrayBuffer>; ended: boolean }> {
  const block = new Uint8Array(carried.length + maxBytes);
  block.set(carried);
  let length = carried.length;
  while (length < block.length) {
    const { bytesRead } = await handle.read(block, length, block.length - length, null);
    if (bytesRead === 0) return { block: block.subarray(0, length), ended: true };
    length += bytesRead;
  }
  return { block, ended: false };
}
