// A session's records: taken from the program's descriptor 3, checked, appended to the session's file, acknowledged.
import { closeSync, constants, fchownSync, ftruncateSync, openSync } from 'node:fs';
import type { Duplex } from 'node:stream';
import { MAX_LINE_BYTES } from '../../worker/protocol.ts';
import { cutTornTail, errnoOf, syncData, writeAll } from './disk.ts';
import { createFramer } from './frame.ts';
import { type Activity, readChunks } from './streams.ts';

const LF = 0x0a;
const APPEND = 0x2b; // +
const DURABLE = 0x21; // !

/** The program wrote a record that cannot be taken, or there is no room for it. Ends the job. */
export class RecordRefused extends Error {
  constructor(message: string) {
    super(message);
    this.name = 'RecordRefused';
  }
}

export interface SessionFile {
  /** The `seq` of the last record, 0 for a new session. */
  readonly lastSeq: number;
  /** Bytes on disk. */
  readonly bytes: number;
  append(records: Buffer, lastSeq: number, durable: boolean): Promise<void>;
  close(): void;
}

/** Opens a session's file for appending, makes it when there is none, and cuts what a dead spawner left half written. */
export function openSessionFile(path: string, gid: number | null): SessionFile {
  const flags = constants.O_WRONLY | constants.O_CREAT | constants.O_APPEND | constants.O_NOFOLLOW;
  const fd = openSync(path, flags, 0o640);
  if (gid !== null) fchownSync(fd, 0, gid);
  const tail = cutTornTail(path, seqOf);
  let lastSeq = tail.last ?? 0;
  let { bytes } = tail;
  return {
    get lastSeq() {
      return lastSeq;
    },
    get bytes() {
      return bytes;
    },
    async append(records, seq, durable) {
      try {
        await writeAll(fd, records);
      } catch (error) {
        ftruncateSync(fd, bytes);
        throw new RecordRefused(`the session cannot be written: ${errnoOf(error)}`);
      }
      bytes += records.length;
      lastSeq = seq;
      if (durable) await syncData(fd);
    },
    close: () => closeSync(fd),
  };
}

/** The `seq` of a record, or null for a line that is none. */
function seqOf(line: string): number | null {
  try {
    const value: unknown = JSON.parse(line);
    if (typeof value !== 'object' || value === null || Array.isArray(value)) return null;
    const { seq } = value as { seq?: unknown };
    return typeof seq === 'number' && Number.isSafeInteger(seq) && seq > 0 ? seq : null;
  } catch {
    return null;
  }
}

interface Batch {
  records: Buffer[];
  lastSeq: number;
  /** Records that wait for an answer. */
  acks: number[];
  refusal: RecordRefused | null;
}

/** Reads the frames of one block: `+{…}` or `!{…}`, each `seq` one above the last. Stops at the first wrong one. */
export function readFrames(block: Buffer, lastSeq: number): Batch {
  const batch: Batch = { records: [], lastSeq, acks: [], refusal: null };
  for (let at = 0; at < block.length; ) {
    const end = block.indexOf(LF, at);
    const mark = block[at];
    const seq = seqOf(block.toString('utf8', at + 1, end));
    if (mark !== APPEND && mark !== DURABLE)
      batch.refusal = new RecordRefused('a frame must begin with + or !');
    else if (seq === null) batch.refusal = new RecordRefused('a record must be a JSON object with a seq');
    else if (seq !== batch.lastSeq + 1) {
      batch.refusal = new RecordRefused(`record ${seq} cannot follow record ${batch.lastSeq}`);
    }
    if (batch.refusal !== null || seq === null) break;
    batch.records.push(block.subarray(at + 1, end + 1));
    batch.lastSeq = seq;
    if (mark === DURABLE) batch.acks.push(seq);
    at = end + 1;
  }
  return batch;
}

/**
 * Takes records until the program closes its end. A frame that was cut by the program's death is dropped.
 * Rejects with RecordRefused; then everything before the wrong record is in the file.
 */
export function takeRecords(
  stream: Duplex,
  activity: Activity,
  file: SessionFile,
  maxBytes: number,
): Promise<void> {
  const framer = createFramer(MAX_LINE_BYTES + 1);
  let taken = 0;
  return readChunks(stream, activity, async (chunk) => {
    const block = framer.push(chunk);
    if (framer.dropped > 0) throw new RecordRefused(`a record must have at most ${MAX_LINE_BYTES} bytes`);
    if (block === null) return true;
    const { records, lastSeq, acks, refusal } = readFrames(block, file.lastSeq);
    const bytes = Buffer.concat(records);
    taken += bytes.length;
    if (taken > maxBytes) throw new RecordRefused(`the run's records must have at most ${maxBytes} bytes`);
    if (bytes.length > 0) await file.append(bytes, lastSeq, acks.length > 0);
    if (acks.length > 0) await answer(stream, acks.map((seq) => `{"ack":${seq}}\n`).join(''));
    if (refusal !== null) throw refusal;
    return true;
  });
}

/** Waits until the answer is handed over: a program that does not read its answers is not read either. */
function answer(stream: Duplex, text: string): Promise<void> {
  // An error here means that the program is gone; its end is told elsewhere.
  return new Promise((resolve) => stream.write(text, () => resolve()));
}
