// A real pipe for a child's output. Node gives children a socket, on which `tee /dev/stderr` and `> /dev/stdout` fail.
import { execFile } from 'node:child_process';
import { randomBytes } from 'node:crypto';
import { closeSync, constants, fstatSync, openSync, unlinkSync } from 'node:fs';
import { Socket } from 'node:net';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { promisify } from 'node:util';
import type { OutputSource } from './collect-output.ts';

const READ = constants.O_RDONLY | constants.O_NONBLOCK;
/** One buffer per pipe, used again for each read: a flood makes no garbage. */
const BUFFER_BYTES = 64 * 1024;
const MAX_SPARE = 4;

export interface OutputPipe {
  /** Ends when no process holds the writing end any more. */
  source: OutputSource;
  /** For the child's stdio; closed here by `release` once the child has it. */
  writeFd: number;
  /** What /proc/PID/fd shows of it. */
  device: number;
  inode: number;
  release(): void;
}

/** Pipes that nobody writes to any more, each held open by a reading end: making one takes a process. */
const spare: number[] = [];

/** Opens a pipe, or gives null where FIFOs cannot be made (then the child's own socket must do). */
export async function openOutputPipe(): Promise<OutputPipe | null> {
  const kept = spare.pop();
  if (kept === undefined) return makePipe();
  try {
    return pipeAt(`/proc/self/fd/${kept}`, kept);
  } catch {
    closeSync(kept); // a system without /proc
    return makePipe();
  }
}

async function makePipe(): Promise<OutputPipe | null> {
  const path = join(tmpdir(), `.djinn-pipe-${process.pid}-${randomBytes(8).toString('hex')}`);
  try {
    await promisify(execFile)('mkfifo', ['-m', '600', path]);
  } catch {
    return null;
  }
  let keeper: number | undefined;
  try {
    keeper = openSync(path, READ);
    return pipeAt(path, keeper);
  } catch {
    if (keeper !== undefined) closeSync(keeper);
    return null;
  } finally {
    unlinkSync(path);
  }
}

function pipeAt(path: string, keeper: number): OutputPipe {
  // The reader first and without blocking: it is what lets the writer's open return.
  const readFd = openSync(path, READ);
  let writeFd: number;
  try {
    writeFd = openSync(path, constants.O_WRONLY);
  } catch (error) {
    closeSync(readFd);
    throw error;
  }
  const { dev, ino } = fstatSync(readFd);
  return {
    source: sourceOf(readFd, keeper),
    writeFd,
    device: dev,
    inode: ino,
    release: () => closeSync(writeFd),
  };
}

function sourceOf(readFd: number, keeper: number): OutputSource {
  let take: (chunk: Buffer) => void = () => {};
  let isReading = true;
  const socket = new Socket({
    ...{ fd: readFd, readable: true, writable: false },
    onread: {
      buffer: Buffer.allocUnsafe(BUFFER_BYTES),
      callback(count: number, buffer: Uint8Array) {
        take(Buffer.from(buffer.buffer, buffer.byteOffset, count));
        return isReading;
      },
    },
  } as ConstructorParameters<typeof Socket>[0]);
  let isOver = false;
  let isDropped = false;
  socket.once('end', () => {
    isOver = true;
    if (isDropped) return;
    if (spare.length < MAX_SPARE) spare.push(keeper);
    else closeSync(keeper);
  });
  return {
    onData(listener) {
      take = listener;
    },
    onEnd(listener) {
      socket
        .once('end', listener)
        .once('close', listener)
        .on('error', () => {}); // 'close' follows
    },
    pause() {
      isReading = false;
    },
    resume() {
      isReading = true;
      socket.resume();
    },
    letGo() {
      // Somebody still writes to it: it is nobody else's pipe.
      if (!isOver && !isDropped) closeSync(keeper);
      isDropped = true;
      socket.unref();
    },
    destroy() {
      this.letGo();
      socket.destroy();
    },
  };
}
