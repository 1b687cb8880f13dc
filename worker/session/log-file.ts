// Opens a session's log file for reading only: takes no lock and changes nothing, also while a run writes to it.
import * as fs from 'node:fs';
import { join } from 'node:path';
import { type ReadLog, readLog } from './reader.ts';
import type { SessionRecord } from './record.ts';
import { refuseNewer, SESSION_ID, StoreError } from './store.ts';

/** The file that a word on a command line names: an id in the folder, or a path (it has a `/` or ends in `.jsonl`). */
export function logPath(word: string, dir: string | null): string {
  if (word.includes('/') || word.endsWith('.jsonl')) return word;
  if (!SESSION_ID.test(word)) throw new StoreError('storage', `not a session id: ${word.slice(0, 80)}`);
  if (dir === null) throw new StoreError('storage', 'no place for session logs: set DJINN_HOME or HOME');
  return join(dir, `${word}.jsonl`);
}

/** Hands the open file to `use` and closes it. Throws a StoreError when there is no such file. */
export function withLog<T>(path: string, use: (fd: number) => T): T {
  let fd: number;
  try {
    fd = fs.openSync(path, fs.constants.O_RDONLY | fs.constants.O_NONBLOCK);
  } catch (error) {
    const { code, message } = error as NodeJS.ErrnoException;
    throw new StoreError('storage', code === 'ENOENT' ? `no session log ${path}` : message);
  }
  try {
    if (fs.fstatSync(fd).isDirectory()) throw new StoreError('storage', `${path} is a folder`);
    return use(fd);
  } finally {
    fs.closeSync(fd);
  }
}

export interface WholeLog extends ReadLog {
  all: SessionRecord[];
  /** The line of each record, without its LF. */
  lines: Buffer[];
}

/** Reads all records. Throws a StoreError, also for a log of a later version. */
export function readWholeLog(path: string): WholeLog {
  const all: SessionRecord[] = [];
  const lines: Buffer[] = [];
  const log = withLog(path, (fd) =>
    readLog(fd, (record, line) => {
      all.push(record);
      lines.push(line);
    }),
  );
  refuseNewer(log, path);
  return { ...log, all, lines };
}
