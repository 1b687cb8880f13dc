// Writes whole lines to stdout: in order, many at a time, as fast as the reader takes them, to the last byte.
import { writeSync } from 'node:fs';

const FLUSH_UNITS = 64 * 1024;

export interface LineWriter {
  /** Takes one line without its LF; the promise, if any, resolves when the reader has room again. */
  write(line: string): Promise<void> | undefined;
  /** Resolves when everything has been taken by the system, or when the reader is gone. */
  end(): Promise<void>;
}

/**
 * @param onGone called once when the reader went away (EPIPE); later lines are dropped.
 */
export function createLineWriter(onGone: (error: Error) => void): LineWriter {
  let text = '';
  let first = true;
  let gone = false;
  let flushing: Promise<void> | null = null;
  let scheduled = false;

  const fail = (error: Error): void => {
    if (gone) return;
    gone = true;
    text = '';
    onGone(error);
  };

  // The first line goes out before the stream's modules are loaded; what does not fit goes the ordinary way.
  const writeFirst = (bytes: Buffer): Buffer => {
    try {
      return bytes.subarray(writeSync(1, bytes));
    } catch (error) {
      if ((error as NodeJS.ErrnoException).code !== 'EAGAIN') fail(error as Error);
      return bytes;
    }
  };

  const writeStream = (bytes: Buffer): Promise<void> =>
    new Promise((resolve) => {
      process.stdout.write(bytes, (error) => {
        if (error) fail(error);
        resolve();
      });
    });

  const flush = async (): Promise<void> => {
    while (text !== '' && !gone) {
      let bytes: Buffer = Buffer.from(text);
      text = '';
      if (first) {
        first = false;
        bytes = writeFirst(bytes);
        if (gone || bytes.length === 0) continue;
      }
      if (process.stdout.listenerCount('error') === 0) process.stdout.on('error', fail);
      await writeStream(bytes);
    }
  };

  const startFlush = (): Promise<void> => {
    flushing ??= flush().finally(() => {
      flushing = null;
    });
    return flushing;
  };

  return {
    write(line) {
      if (gone) return undefined;
      text += `${line}\n`;
      if (first || text.length >= FLUSH_UNITS) return startFlush();
      if (!scheduled) {
        scheduled = true;
        setImmediate(() => {
          scheduled = false;
          void startFlush();
        });
      }
      return undefined;
    },
    async end() {
      while ((text !== '' || flushing !== null) && !gone) await startFlush();
    },
  };
}
