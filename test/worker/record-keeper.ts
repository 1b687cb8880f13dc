// The other end of the descriptors 3 and 4: keeps a session's records in a file and acknowledges the durable ones.
import { appendFileSync, closeSync, openSync, readFileSync, truncateSync } from 'node:fs';
import type { Duplex } from 'node:stream';

export interface RecordKeeper {
  path: string;
  /** Records that asked for an acknowledgement. */
  durable: number[];
  /** The log, read-only, for descriptor 4. */
  open(): number;
  close(fd: number): void;
  /** Takes the frames of one process; closes the connection when the file takes no more. */
  attach(records: Duplex): void;
}

const isRecord = (line: string): boolean => {
  try {
    return typeof (JSON.parse(line) as { seq: unknown }).seq === 'number';
  } catch {
    return false;
  }
};

/** A half line at the end is cut, one that lacks only its LF gets it; as whoever appends to a log must do. */
function mendTail(path: string): void {
  const bytes = readFileSync(path);
  const whole = bytes.lastIndexOf(10) + 1;
  if (whole === bytes.length) return;
  if (isRecord(bytes.toString('utf8', whole))) appendFileSync(path, '\n');
  else truncateSync(path, whole);
}

export function createRecordKeeper(path: string): RecordKeeper {
  const durable: number[] = [];
  return {
    path,
    durable,
    open() {
      appendFileSync(path, '');
      return openSync(path, 'r');
    },
    close: closeSync,
    attach(records) {
      let held = '';
      let mended = false;
      records.setEncoding('utf8');
      records.on('error', () => {});
      records.on('data', (text: string) => {
        held += text;
        for (let end = held.indexOf('\n'); end !== -1; end = held.indexOf('\n')) {
          const frame = held.slice(0, end);
          held = held.slice(end + 1);
          const line = frame.slice(1);
          try {
            // Only now: the program reads the log as it was found.
            if (!mended) mendTail(path);
            mended = true;
            appendFileSync(path, `${line}\n`);
          } catch {
            records.destroy();
            return;
          }
          if (frame[0] !== '!') continue;
          const { seq } = JSON.parse(line) as { seq: number };
          durable.push(seq);
          records.write(`{"ack":${seq}}\n`);
        }
      });
    },
  };
}
