// Session log in a file of its own (JSONL, mode 0600, folder 0700) with one writer. Only appends; a torn last line
// is moved to `<log>.torn` before the first append.
import * as fs from 'node:fs';
import { join } from 'node:path';
import { promisify } from 'node:util';
import { lockSession, type SessionLock } from './lock.ts';
import { type ReadLog, readLog } from './reader.ts';
import { formatRecord, type RecordData, type RecordType, readBack, type SessionRecord } from './record.ts';
import { MAX_RECORD_BYTES, refuseNewer, SESSION_ID, type SessionStore, StoreError } from './store.ts';

const fdatasync = promisify(fs.fdatasync);
const FILE_MODE = 0o600;

function storageError(what: string, error: unknown): StoreError {
  const { code, message } = error as NodeJS.ErrnoException;
  return new StoreError('storage', `${what}: ${code ?? message}`);
}

/** Writes all bytes or restores the former length, so that a full disk leaves no half record. */
function writeWhole(fd: number, bytes: Buffer, offset: number): void {
  try {
    for (let written = 0; written < bytes.length; ) {
      written += fs.writeSync(fd, bytes, written, bytes.length - written);
    }
  } catch (error) {
    try {
      fs.ftruncateSync(fd, offset);
    } catch {
      // The next reader sets the half record aside.
    }
    throw error;
  }
}

/** Ends an unended last record, or moves a torn one out of the way; gives the length of the log. */
function mendTail(fd: number, path: string, log: ReadLog): number {
  if (log.missingNewline) writeWhole(fd, Buffer.from('\n'), fs.fstatSync(fd).size);
  if (log.tornBytes !== null) {
    fs.appendFileSync(`${path}.torn`, Buffer.concat([log.tornBytes, Buffer.from('\n')]), { mode: FILE_MODE });
    fs.ftruncateSync(fd, log.wholeBytes);
  }
  return fs.fstatSync(fd).size;
}

/**
 * Opens (or begins) the session's log, hands its records to `onRecord` and keeps it locked until `close`.
 * Throws a StoreError: `busy` when another process has it, `storage` for what the system refuses.
 */
export function openFileStore(options: {
  dir: string;
  sessionId: string;
  onRecord(record: SessionRecord): void;
}): SessionStore {
  const { dir, sessionId } = options;
  if (!SESSION_ID.test(sessionId))
    throw new StoreError('storage', `not a session id: ${sessionId.slice(0, 80)}`);
  const path = join(dir, `${sessionId}.jsonl`);
  let lock: SessionLock | undefined;
  let fd: number | undefined;
  try {
    fs.mkdirSync(dir, { recursive: true, mode: 0o700 });
    lock = lockSession(join(dir, `${sessionId}.lock`));
    const { O_RDWR, O_CREAT, O_APPEND, O_NOFOLLOW } = fs.constants;
    fd = fs.openSync(path, O_RDWR | O_CREAT | O_APPEND | O_NOFOLLOW, FILE_MODE);
    const log = readLog(fd, options.onRecord);
    refuseNewer(log, path);
    return fileStore(path, fd, lock, log, mendTail(fd, path, log));
  } catch (error) {
    if (fd !== undefined) fs.closeSync(fd);
    lock?.release();
    throw error instanceof StoreError ? error : storageError(`cannot open ${path}`, error);
  }
}

/**
 * The log is as long as this writer left it, and still has its name. The lock is looked at just before a record is
 * written, so a writer that was superseded in between can still add one: its successor must not go on without it.
 */
function checkAlone(fd: number, length: number): void {
  const { size, nlink } = fs.fstatSync(fd);
  if (nlink === 0) throw new StoreError('storage', 'the session log was removed');
  if (size !== length) throw new StoreError('lost', 'another process wrote to this session');
}

function fileStore(path: string, fd: number, lock: SessionLock, log: ReadLog, size: number): SessionStore {
  let seq = log.lastSeq;
  let length = size;
  let closed = false;
  return {
    found: log.records,
    damage: log.damage,
    name: path,
    async append<T extends RecordType>(type: T, data: RecordData[T], { durable = false } = {}) {
      const ts = new Date().toISOString();
      const line = formatRecord(seq + 1, ts, type, data);
      const bytes = Buffer.from(`${line}\n`);
      if (bytes.length > MAX_RECORD_BYTES) throw new StoreError('storage', `a ${type} record is too large`);
      lock.check();
      checkAlone(fd, length);
      try {
        writeWhole(fd, bytes, length);
        length += bytes.length;
        seq += 1;
        if (durable) await fdatasync(fd);
      } catch (error) {
        throw storageError(`cannot write ${path}`, error);
      }
      return readBack(line);
    },
    async close() {
      if (closed) return;
      closed = true;
      fs.closeSync(fd);
      lock.release();
    },
  };
}
