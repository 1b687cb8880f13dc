// The other end of the descriptors 3 and 4: keeps a session's records in a file and acknowledges the durable ones.
import { appendFileSync, closeSync, openSync } from 'node:fs';
import type { Duplex } from 'node:stream';

export interface RecordKeeper {
  path: string;
  /** Records that asked for an acknowledgement. */
  durable: number[];
  /** The log, read-only, for descriptor 4. */
  open(): number;
  close(fd: number): void;
  /** Takes the frames of one process. */
  attach(records: Duplex): void;
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
      records.setEncoding('utf8');
      records.on('error', () => {});
      records.on('data', (text: string) => {
        held += text;
        for (let end = held.indexOf('\n'); end !== -1; end = held.indexOf('\n')) {
          const frame = held.slice(0, end);
          held = held.slice(end + 1);
          const line = frame.slice(1);
          appendFileSync(path, `${line}\n`);
          if (frame[0] !== '!') continue;
          const { seq } = JSON.parse(line) as { seq: number };
          durable.push(seq);
          records.write(`{"ack":${seq}}\n`);
        }
      });
    },
  };
}
