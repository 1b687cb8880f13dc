// Makes a new session from the records of another one up to a number. Never changes the other one, and never makes a
// session that is there already.
import * as fs from 'node:fs';
import { join } from 'node:path';
import { applyRecord, createConversation, pendingCalls } from '../conversation.ts';
import type { WholeLog } from './log-file.ts';
import { formatRecord, type RecordData } from './record.ts';
import { SESSION_ID, StoreError } from './store.ts';

const NOT_IN_FORK =
  'interrupted: the session was forked before this call had a result. It may have run in part.';

/** Results for the calls that the cut leaves without one: a fork never splits a call from its result. */
function missingResults(log: WholeLog, count: number): RecordData['tool_result'][] {
  const conversation = createConversation();
  for (const record of log.all.slice(0, count)) applyRecord(conversation, record);
  const calls = pendingCalls(conversation)?.calls ?? [];
  return calls.map(({ id, name }) => ({
    callId: id,
    name,
    content: NOT_IN_FORK,
    isError: true,
    interrupted: true,
  }));
}

/** Writes all of it under a name that nobody has, or nothing. */
function writeNew(path: string, text: Buffer): void {
  const unfinished = `${path}.${process.pid}.new`;
  const { O_WRONLY, O_CREAT, O_EXCL } = fs.constants;
  const fd = fs.openSync(unfinished, O_WRONLY | O_CREAT | O_EXCL, 0o600);
  try {
    fs.writeFileSync(fd, text);
    fs.fdatasyncSync(fd);
    fs.linkSync(unfinished, path);
  } finally {
    fs.closeSync(fd);
    fs.unlinkSync(unfinished);
  }
}

export interface Fork {
  path: string;
  /** Records in the new session, those that the fork added included. */
  records: number;
  /** Calls without a result that were answered as interrupted. */
  interrupted: number;
}

/**
 * Copies the records up to `at`, byte for byte, into the session `sessionId` of the folder `dir`, answers the calls
 * that are then without a result, and adds a `fork` record. `complete: false` leaves those calls open: whoever resumes
 * the session runs them. Throws a StoreError when there is no record `at` or the session exists.
 */
export function forkSession(log: WholeLog, { from, at, dir, sessionId, complete = true }: ForkOptions): Fork {
  if (!SESSION_ID.test(sessionId)) throw new StoreError('storage', `not a session id: ${sessionId}`);
  const count = log.all.findIndex((record) => record.seq === at) + 1;
  if (count === 0) {
    throw new StoreError(
      'storage',
      `there is no record ${at}: the log has ${log.all[0]?.seq ?? 0} to ${log.lastSeq}`,
    );
  }
  const ts = new Date().toISOString();
  const results = complete ? missingResults(log, count) : [];
  const added = results.map((data, index) => formatRecord(at + 1 + index, ts, 'tool_result', data));
  added.push(formatRecord(at + 1 + added.length, ts, 'fork', { from, at }));
  const lines = [...log.lines.slice(0, count), ...added.map((line) => Buffer.from(line))];
  const path = join(dir, `${sessionId}.jsonl`);
  try {
    fs.mkdirSync(dir, { recursive: true, mode: 0o700 });
    writeNew(path, Buffer.concat(lines.flatMap((line) => [line, Buffer.from('\n')])));
  } catch (error) {
    const { code, message } = error as NodeJS.ErrnoException;
    throw new StoreError('storage', code === 'EEXIST' ? `there is a session ${sessionId} already` : message);
  }
  return { path, records: lines.length, interrupted: results.length };
}

export interface ForkOptions {
  /** Id of the session that the log is of, for the `fork` record. */
  from: string;
  at: number;
  dir: string;
  sessionId: string;
  complete?: boolean;
}
