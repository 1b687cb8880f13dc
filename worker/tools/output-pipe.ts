// A real pipe for a child's output. Node gives children a socket, on which `tee /dev/stderr` and `> /dev/stdout` fail.
import { execFile } from 'node:child_process';
import { randomBytes } from 'node:crypto';
import { closeSync, constants, fstatSync, openSync, unlinkSync } from 'node:fs';
import { Socket } from 'node:net';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import type { Readable } from 'node:stream';
import { promisify } from 'node:util';

export interface OutputPipe {
  /** Ends when no process holds the writing end any more. */
  reader: Readable & { unref(): unknown };
  /** For the child's stdio; closed here by `release` once the child has it. */
  writeFd: number;
  /** What /proc/PID/fd shows of it. */
  device: number;
  inode: number;
  release(): void;
}

/** Opens a pipe, or gives null where FIFOs cannot be made (then the child's own socket must do). */
export async function openOutputPipe(): Promise<OutputPipe | null> {
  const path = join(tmpdir(), `.djinn-pipe-${process.pid}-${randomBytes(8).toString('hex')}`);
  try {
    await promisify(execFile)('mkfifo', ['-m', '600', path]);
  } catch {
    return null;
  }
  let readFd: number | undefined;
  try {
    // The reader first and without blocking: it is what lets the writer's open return.
    readFd = openSync(path, constants.O_RDONLY | constants.O_NONBLOCK);
    const writeFd = openSync(path, constants.O_WRONLY);
    const { dev, ino } = fstatSync(readFd);
    const reader = new Socket({ fd: readFd, readable: true, writable: false });
    return { reader, writeFd, device: dev, inode: ino, release: () => closeSync(writeFd) };
  } catch {
    if (readFd !== undefined) closeSync(readFd);
    return null;
  } finally {
    unlinkSync(path);
  }
}
