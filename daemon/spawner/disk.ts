// Writing to files of the spawner: whole buffers, durability, and the last whole line of a file. Root's files only.
import {
  closeSync,
  constants,
  fdatasync,
  fstatSync,
  ftruncateSync,
  openSync,
  readSync,
  write,
} from 'node:fs';

const LF = 0x0a;
const BLOCK_BYTES = 64 * 1024;

export function errnoOf(error: unknown): string {
  const code = (error as { code?: unknown } | null)?.code;
  return typeof code === 'string' ? code : 'EUNKNOWN';
}

/** Writes everything, in as many calls as the kernel wants (one, unless the disk is nearly full). */
export async function writeAll(fd: number, bytes: Buffer): Promise<void> {
  for (let at = 0; at < bytes.length; ) at += await writeSome(fd, bytes, at);
}

function writeSome(fd: number, bytes: Buffer, at: number): Promise<number> {
  return new Promise((resolve, reject) => {
    write(fd, bytes, at, bytes.length - at, null, (error, written) => {
      if (error) reject(error);
      else resolve(written);
    });
  });
}

export function syncData(fd: number): Promise<void> {
  return new Promise((resolve, reject) => {
    fdatasync(fd, (error) => (error ? reject(error) : resolve()));
  });
}

/** Makes the entries of a directory durable. */
export async function syncDirectory(path: string): Promise<void> {
  const fd = openSync(path, constants.O_RDONLY | constants.O_DIRECTORY);
  await syncData(fd).finally(() => closeSync(fd));
}

/** The end of a file of lines: its size and its last line. */
export interface Tail<T> {
  bytes: number;
  last: T | null;
}

/**
 * Cuts everything after the last line that `read` understands (a process or a machine may have died while writing)
 * and returns what is left. `read` gets a line without its LF and returns null for one that cannot be right.
 */
export function cutTornTail<T>(path: string, read: (line: string) => T | null): Tail<T> {
  const fd = openSync(path, constants.O_RDWR | constants.O_NOFOLLOW);
  try {
    const size = fstatSync(fd).size;
    let end = lastBreak(fd, size);
    for (;;) {
      const start = end === 0 ? 0 : lastBreak(fd, end - 1);
      const last = end === 0 ? null : read(readText(fd, start, end - 1));
      if (end === 0 || last !== null) {
        if (end !== size) ftruncateSync(fd, end);
        return { bytes: end, last };
      }
      end = start;
    }
  } finally {
    closeSync(fd);
  }
}

/** Position after the last LF before `before`; 0 when there is none. */
function lastBreak(fd: number, before: number): number {
  const block = Buffer.allocUnsafe(BLOCK_BYTES);
  for (let end = before; end > 0; ) {
    const start = Math.max(0, end - BLOCK_BYTES);
    const length = readSync(fd, block, 0, end - start, start);
    const at = block.subarray(0, length).lastIndexOf(LF);
    if (at >= 0) return start + at + 1;
    end = start;
  }
  return 0;
}

function readText(fd: number, start: number, end: number): string {
  const bytes = Buffer.allocUnsafe(end - start);
  let at = 0;
  while (at < bytes.length) {
    const length = readSync(fd, bytes, at, bytes.length - at, start + at);
    if (length === 0) break;
    at += length;
  }
  return bytes.toString('utf8', 0, at);
}
