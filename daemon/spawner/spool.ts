// The spool of one attempt: an append-only file that only the spawner writes. Holds whole lines only, always.
import { closeSync, constants, fchownSync, ftruncateSync, openSync } from 'node:fs';
import { readdir, rmdir, unlink } from 'node:fs/promises';
import { join } from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';
import { errnoOf, syncData, writeAll } from './disk.ts';

/** The spool takes no more lines: `errno` says why. Sticky, so that no line is ever missing in the middle. */
export class SpoolFailed extends Error {
  readonly errno: string;

  constructor(errno: string) {
    super(`the spool cannot be written: ${errno}`);
    this.name = 'SpoolFailed';
    this.errno = errno;
  }
}

export interface Spool {
  /** Appends whole lines of which the last has this `seq`. Calls are kept in order. Rejects with SpoolFailed. */
  append(lines: Buffer, seq: number): Promise<void>;
  /**
   * Writes the closing line and syncs; waits for room as long as it takes. `lastLine` is made with the seq of the
   * line before it, because lines that did not fit are not there.
   */
  seal(lastLine: (previousSeq: number) => Buffer): Promise<void>;
  /** Closes the file as it is. */
  close(): void;
  readonly bytes: number;
}

export interface SpoolOptions {
  path: string;
  /** Group that may read; null: leave the owner as it is. */
  gid: number | null;
  retryMs?: number;
  /** Told of each failed try to seal. */
  onRetry?: (errno: string) => void;
}

/** Creates the file. Throws EEXIST when the attempt had one already. */
export function createSpool({ path, gid, retryMs = 1000, onRetry }: SpoolOptions): Spool {
  const flags = constants.O_WRONLY | constants.O_CREAT | constants.O_EXCL | constants.O_APPEND;
  const fd = openSync(path, flags, 0o640);
  if (gid !== null) fchownSync(fd, 0, gid);
  return spoolOn(fd, { bytes: 0, lastSeq: 0, retryMs, onRetry });
}

/** Opens the spool of a dead predecessor, of which the torn tail has been cut. */
export function reopenSpool(tail: {
  path: string;
  bytes: number;
  lastSeq: number;
  onRetry?: (errno: string) => void;
}): Spool {
  const fd = openSync(tail.path, constants.O_WRONLY | constants.O_APPEND);
  return spoolOn(fd, { bytes: tail.bytes, lastSeq: tail.lastSeq, retryMs: 1000, onRetry: tail.onRetry });
}

interface SpoolState {
  bytes: number;
  lastSeq: number;
  retryMs: number;
  onRetry: ((errno: string) => void) | undefined;
}

function spoolOn(fd: number, state: SpoolState): Spool {
  let failed: SpoolFailed | null = null;
  let queue: Promise<void> = Promise.resolve();

  /** All of it or nothing: what was written of a block that does not fit is cut off again. */
  async function writeWhole(lines: Buffer): Promise<void> {
    try {
      await writeAll(fd, lines);
      state.bytes += lines.length;
    } catch (error) {
      ftruncateSync(fd, state.bytes);
      throw error;
    }
  }

  async function appendNow(lines: Buffer, seq: number): Promise<void> {
    if (failed !== null) throw failed;
    try {
      await writeWhole(lines);
      state.lastSeq = seq;
    } catch (error) {
      failed = new SpoolFailed(errnoOf(error));
      throw failed;
    }
  }

  async function untilDone(step: () => void | Promise<void>): Promise<void> {
    for (;;) {
      try {
        return await step();
      } catch (error) {
        state.onRetry?.(errnoOf(error));
        await sleep(state.retryMs);
      }
    }
  }

  return {
    append(lines, seq) {
      const done = queue.then(() => appendNow(lines, seq));
      queue = done.catch(() => {});
      return done;
    },
    async seal(lastLine) {
      await queue;
      await untilDone(() => writeWhole(lastLine(state.lastSeq)));
      await untilDone(() => syncData(fd));
      closeSync(fd);
    },
    close: () => closeSync(fd),
    get bytes() {
      return state.bytes;
    },
  };
}

/** Removes a job's spools; false when there was nothing. Only files: nothing else is ever made there. */
export async function removeSpools(dir: string): Promise<boolean> {
  try {
    for (const name of await readdir(dir)) await unlink(join(dir, name));
    await rmdir(dir);
    return true;
  } catch (error) {
    if (errnoOf(error) === 'ENOENT') return false;
    throw error;
  }
}
