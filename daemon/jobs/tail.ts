// One reader of one attempt's spool: whole lines as raw bytes from a place of its own, until the closing line.
// Readers share nothing but the file; none ever writes to it.
import { type FSWatcher, fstatSync, watch } from 'node:fs';
import { type FileHandle, open, stat } from 'node:fs/promises';
import { type Closing, closingOf, LF, lastLineStart, seqAt } from './event-line.ts';
import { placeAfter } from './locate.ts';

const SMALL_READ_BYTES = 64 * 1024;
const LARGE_READ_BYTES = 256 * 1024;
/** What happens when inotify says nothing: lost watches, file systems without it. */
const POLL_MS = 1_000;
const POLL_UNWATCHED_MS = 200;

export interface SpoolTail {
  /** Number of the last line handed out, or of the line after which reading began. */
  readonly seq: number;
  /** Set once the closing line has been handed out. */
  readonly closing: Closing | null;
  /** The next whole lines, or null when there are none now. */
  read(): Promise<Buffer | null>;
  /** True when the file has lost its name: it was removed, and another may be in its place. */
  removed(): boolean;
  /** True when the path is another file now: what comes is written there. */
  replaced(): Promise<boolean>;
  /** Resolves when there may be more, and now and then without a reason; at once when `signal` is aborted. */
  changed(signal: AbortSignal): Promise<void>;
  close(): Promise<void>;
}

/**
 * Opens the spool behind line `afterSeq`. Null: there is no such file. `missing` is true when that line is not in the
 * file (yet); reading then begins after the last line that is.
 */
export async function openTail(
  path: string,
  ref: { jobId: string; attempt: number },
  afterSeq: number,
): Promise<{ tail: SpoolTail; missing: boolean } | null> {
  let file: FileHandle;
  try {
    file = await open(path, 'r');
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code === 'ENOENT') return null;
    throw error;
  }
  try {
    const place = afterSeq === 0 ? { offset: 0, seq: 0 } : await placeAfter(file, afterSeq, seqAt);
    return { tail: new FileTail(path, file, ref, place), missing: place.seq !== afterSeq };
  } catch (error) {
    await file.close();
    throw error;
  }
}

class FileTail implements SpoolTail {
  closing: Closing | null = null;
  seq: number;
  readonly #path: string;
  readonly #file: FileHandle;
  readonly #ref: { jobId: string; attempt: number };
  #position: number;
  /** Pieces of a line that is longer than what has been read of it. */
  #torn: Buffer[] = [];
  #watcher: FSWatcher | null | undefined;
  #dirty = true;
  #wake: (() => void) | null = null;

  constructor(
    path: string,
    file: FileHandle,
    ref: { jobId: string; attempt: number },
    place: { offset: number; seq: number },
  ) {
    this.#path = path;
    this.#file = file;
    this.#ref = ref;
    this.#position = place.offset;
    this.seq = place.seq;
  }

  async read(): Promise<Buffer | null> {
    while (this.closing === null) {
      this.#dirty = false;
      const chunk = await this.#readChunk();
      if (chunk === null) return null;
      const end = chunk.lastIndexOf(LF) + 1;
      if (end === 0) {
        this.#torn.push(chunk);
        continue;
      }
      const whole = chunk.subarray(0, end);
      const lines = this.#torn.length === 0 ? whole : Buffer.concat([...this.#torn, whole]);
      this.#torn = end < chunk.length ? [chunk.subarray(end)] : [];
      this.seq = seqAt(lines, lastLineStart(lines));
      this.closing = closingOf(lines, this.#ref.jobId, this.#ref.attempt);
      return lines;
    }
    return null;
  }

  async #readChunk(): Promise<Buffer | null> {
    // Of an open file this never waits for the disk; a detour through the thread pool would cost more than all the rest.
    const { size } = fstatSync(this.#file.fd);
    if (size < this.#position) {
      // The spawner cut off a block that the disk had no room for; what follows begins where the file now ends.
      this.#position = size;
      this.#torn = [];
    }
    if (size === this.#position) return null;
    const length = size - this.#position > SMALL_READ_BYTES ? LARGE_READ_BYTES : SMALL_READ_BYTES;
    const buffer = Buffer.allocUnsafeSlow(Math.min(length, size - this.#position));
    const { bytesRead } = await this.#file.read(buffer, 0, buffer.length, this.#position);
    if (bytesRead === 0) return null;
    this.#position += bytesRead;
    return buffer.subarray(0, bytesRead);
  }

  removed(): boolean {
    return fstatSync(this.#file.fd).nlink === 0;
  }

  async replaced(): Promise<boolean> {
    try {
      return (await stat(this.#path)).ino !== (await this.#file.stat()).ino;
    } catch {
      // Removed: then the row says how it goes on.
      return false;
    }
  }

  async changed(signal: AbortSignal): Promise<void> {
    if (this.#watcher === undefined) this.#startWatching();
    if (this.#dirty || signal.aborted) return;
    await new Promise<void>((resolve) => {
      const done = (): void => {
        clearTimeout(timer);
        signal.removeEventListener('abort', done);
        this.#wake = null;
        resolve();
      };
      const timer = setTimeout(done, this.#watcher === null ? POLL_UNWATCHED_MS : POLL_MS);
      signal.addEventListener('abort', done);
      this.#wake = done;
    });
  }

  /** The first wait always ends at once: something may have been written before the watch was there. */
  #startWatching(): void {
    this.#dirty = true;
    try {
      this.#watcher = watch(this.#path, { persistent: false }, () => {
        this.#dirty = true;
        this.#wake?.();
      });
      this.#watcher.on('error', () => this.#stopWatching());
    } catch {
      // No inotify left, or the file is gone already: polling does the same, later.
      this.#watcher = null;
    }
  }

  #stopWatching(): void {
    this.#watcher?.close();
    this.#watcher = null;
  }

  async close(): Promise<void> {
    this.#stopWatching();
    this.#wake?.();
    await this.#file.close();
  }
}
