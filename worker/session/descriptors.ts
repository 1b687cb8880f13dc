// Session log behind two inherited descriptors: records go out on a socket, earlier ones are read from a file that
// cannot be written. Who holds the other end owns the log; this side never sees a path.
import { closeSync } from 'node:fs';
import type { Socket } from 'node:net';
import { readLog } from './reader.ts';
import { formatRecord, type RecordData, type RecordType, readBack, type SessionRecord } from './record.ts';
import { MAX_RECORD_BYTES, refuseNewer, type SessionStore, StoreError } from './store.ts';

interface Acks {
  wait(seq: number): Promise<void>;
}

/** Reads `{"ack":N}` lines; each answers for all records up to N. */
function readAcks(socket: Socket): Acks {
  let text = '';
  let failure: StoreError | null = null;
  let waiting: { seq: number; resolve: () => void; reject: (error: Error) => void }[] = [];
  const fail = (error: StoreError): void => {
    failure ??= error;
    for (const one of waiting) one.reject(failure);
    waiting = [];
  };
  const take = (line: string): void => {
    const ack = /^\{"ack":(\d+)\}$/.exec(line);
    if (ack === null) {
      fail(new StoreError('storage', `not an acknowledgement: ${line.slice(0, 80)}`));
      return;
    }
    const seq = Number(ack[1]);
    for (const one of waiting) if (one.seq <= seq) one.resolve();
    waiting = waiting.filter((one) => one.seq > seq);
  };
  socket.on('data', (bytes: Buffer) => {
    text += bytes.toString('latin1');
    for (let end = text.indexOf('\n'); end !== -1; end = text.indexOf('\n')) {
      take(text.slice(0, end));
      text = text.slice(end + 1);
    }
  });
  const gone = (): void => fail(new StoreError('storage', 'the session log was closed'));
  socket.on('end', gone);
  socket.on('error', gone);
  socket.on('close', gone);
  return {
    wait: (seq) =>
      new Promise((resolve, reject) => {
        if (failure === null) waiting.push({ seq, resolve, reject });
        else reject(failure);
      }),
  };
}

/**
 * One frame per record: `+{record}` to append, `!{record}` to append, sync and answer `{"ack":SEQ}`.
 * @param options.recordsFd socket for the frames (3); `logFd`: the log so far (4), read to its end and closed.
 */
export async function openDescriptorStore(options: {
  recordsFd: number;
  logFd: number;
  onRecord(record: SessionRecord): void;
}): Promise<SessionStore> {
  let log: ReturnType<typeof readLog>;
  try {
    log = readLog(options.logFd, options.onRecord);
    closeSync(options.logFd);
  } catch (error) {
    throw new StoreError('storage', `cannot read descriptor ${options.logFd}: ${(error as Error).message}`);
  }
  refuseNewer(log, `descriptor ${options.logFd}`);
  // Opened at the first append, so that `net` loads after the first event was written.
  let opened: Promise<{ socket: Socket; acks: Acks }> | null = null;
  const open = async (): Promise<{ socket: Socket; acks: Acks }> => {
    const { Socket } = await import('node:net');
    const socket = new Socket({ fd: options.recordsFd, readable: true, writable: true });
    return { socket, acks: readAcks(socket) };
  };
  let seq = log.lastSeq;
  return {
    found: log.records,
    damage: log.damage,
    name: `descriptor ${options.logFd}`,
    async append<T extends RecordType>(type: T, data: RecordData[T], { durable = false } = {}) {
      const ts = new Date().toISOString();
      const line = formatRecord(seq + 1, ts, type, data);
      if (line.length * 3 > MAX_RECORD_BYTES && Buffer.byteLength(line) >= MAX_RECORD_BYTES) {
        throw new StoreError('storage', `a ${type} record is too large`);
      }
      opened ??= open();
      const { socket, acks } = await opened;
      seq += 1;
      const acked = durable ? acks.wait(seq) : null;
      acked?.catch(() => {}); // Awaited below; the write may fail first.
      await new Promise<void>((resolve, reject) => {
        socket.write(`${durable ? '!' : '+'}${line}\n`, (error) => {
          if (error) reject(new StoreError('storage', `cannot write the session log: ${error.message}`));
          else resolve();
        });
      });
      await acked;
      return readBack(line);
    },
    async close() {
      if (opened === null) return;
      const { socket } = await opened;
      await new Promise<void>((resolve) => socket.end(resolve));
      socket.destroy();
    },
  };
}
