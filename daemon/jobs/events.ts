// A job's event stream: the queued line, then each attempt from its spool or, when that is pruned, from its segments.
// Every line once and in order, whatever moves from one place to the other meanwhile.
import { type JobRow, readJob } from '../db/jobs.ts';
import { isDatabaseAway, type Pool } from '../db/pool.ts';
import { lastStoredSeq } from '../db/segments.ts';
import { badCursor, type EventCursor, parseEventCursor } from './cursor.ts';
import { closingOf, endAttempt, lastLineStart, queuedLine } from './event-line.ts';
import { spoolPath } from './paths.ts';
import type { JobSignals, JobSubscription } from './signals.ts';
import { readStored } from './stored-lines.ts';
import { openTail, type SpoolTail } from './tail.ts';
import type { EventsOptions } from './types.ts';

export interface EventSources {
  pool: Pool;
  signals: JobSignals;
  stateDir: string;
}

/** How often a stream looks at the row when nothing else tells it of a change. */
const LOOK_MS = 1_000;
/** The same while the spool is in its place: a job then ends there, unless its machine is given up. */
const LOOK_IN_PLACE_MS = 10_000;
/** How long `end` waits for its row, which follows within a moment unless the database is slow, and how often it looks. */
const ROW_BEHIND_MS = 2_000;
const ROW_LOOK_MS = 100;
const AWAY = Symbol('the database is away');

/**
 * Checks the cursor and returns the lines after it. `row` is a job that the caller may see. Throws Problem
 * DJ_CURSOR_INVALID for a cursor that no line has. The iterable is to be read once and closes what it opened.
 */
export async function openEvents(
  sources: EventSources,
  row: JobRow,
  { after, follow, signal }: EventsOptions,
): Promise<AsyncIterable<Buffer>> {
  const stream = new EventStream(sources, row, follow, signal);
  if (after !== undefined) await stream.placeAfter(parseEventCursor(after));
  return stream.lines();
}

const endsJob = ({ closing }: SpoolTail): boolean => closing?.kind === 'end';

class EventStream {
  readonly #sources: EventSources;
  readonly #row: JobRow;
  readonly #follow: boolean;
  readonly #signal: AbortSignal;
  /** The next line is the one after this. */
  #cursor: EventCursor | null = null;
  /** The spool that placing the cursor has opened, so that it cannot be pruned in between. */
  #opened: SpoolTail | null = null;

  constructor(sources: EventSources, row: JobRow, follow: boolean, signal: AbortSignal) {
    this.#sources = sources;
    this.#row = row;
    this.#follow = follow;
    this.#signal = signal;
  }

  /** Throws when there is no such line. */
  async placeAfter(cursor: EventCursor): Promise<void> {
    const { attempt, seq } = cursor;
    const last = attempt === 0 || attempt > endAttempt(this.#row) ? 0 : await this.#reached(cursor);
    if (seq > last || attempt > endAttempt(this.#row)) {
      const known = `the last one of its attempt ${attempt} is ${attempt}-${last}`;
      throw badCursor(`job ${this.#row.jobId} has no line ${attempt}-${seq}; ${known}`);
    }
    this.#cursor = cursor;
  }

  /** `seq` when there is such a line, else the number of the last line that there is. */
  async #reached({ attempt, seq }: EventCursor): Promise<number> {
    if (seq === 0) return 0;
    if (this.#isOwnEnd(this.#row, attempt)) return 1;
    const { jobId } = this.#row;
    const opened = await openTail(this.#path(attempt), { jobId, attempt }, seq);
    if (opened !== null) {
      if (!opened.missing) this.#opened = opened.tail;
      else await opened.tail.close();
      return opened.tail.seq;
    }
    return lastStoredSeq(this.#sources.pool, jobId, attempt);
  }

  async *lines(): AsyncGenerator<Buffer, void, undefined> {
    // From before the first look on, so that nothing happens unseen between a look and a wait.
    const changes = this.#sources.signals.subscribe(this.#row.jobId);
    try {
      yield* this.#attempts(changes);
    } finally {
      changes.close();
      await this.#opened?.close();
    }
  }

  async *#attempts(changes: JobSubscription): AsyncGenerator<Buffer, void, undefined> {
    if (this.#cursor === null) yield queuedLine(this.#row);
    let attempt = Math.max(1, this.#cursor?.attempt ?? 1);
    let seq = this.#cursor?.attempt === attempt ? this.#cursor.seq : 0;
    while (!this.#signal.aborted) {
      const { jobId } = this.#row;
      this.#opened ??= (await openTail(this.#path(attempt), { jobId, attempt }, seq))?.tail ?? null;
      const closed: Closed =
        this.#opened === null
          ? yield* this.#fromStore(attempt, seq)
          : yield* this.#fromSpool(this.#opened, attempt, changes);
      if (closed.next === 'done') return;
      if (closed.next === 'attempt') attempt += 1;
      seq = closed.seq;
      if (closed.next === 'wait') await changes.wait(LOOK_MS, this.#signal);
    }
  }

  /** `end` comes when the row has it too: who has read it and asks for the job is told the same. */
  async *#lastLines(lines: Buffer, changes: JobSubscription): AsyncGenerator<Buffer, void, undefined> {
    const start = lastLineStart(lines);
    if (start > 0) yield lines.subarray(0, start);
    for (const endMs = Date.now() + ROW_BEHIND_MS; Date.now() < endMs && !this.#signal.aborted; ) {
      const row = await this.#whenThere(() => readJob(this.#sources.pool, this.#row.jobId));
      if (row === AWAY || row === null || row.state === 'ended') break;
      await changes.wait(ROW_LOOK_MS, this.#signal);
    }
    yield lines.subarray(start);
  }

  async *#fromSpool(
    tail: SpoolTail,
    attempt: number,
    changes: JobSubscription,
  ): AsyncGenerator<Buffer, Closed, undefined> {
    let lookedMs = Date.now();
    while (tail.closing === null) {
      const lines = await tail.read();
      if (lines !== null) {
        if (endsJob(tail)) yield* this.#lastLines(lines, changes);
        else yield lines;
        continue;
      }
      if (!this.#follow || this.#signal.aborted) return { next: 'done', seq: tail.seq };
      await tail.changed(this.#signal);
      if (Date.now() - lookedMs < (tail.removed() ? LOOK_MS : LOOK_IN_PLACE_MS)) continue;
      lookedMs = Date.now();
      // A spool that was removed before its closing line reached it: the rest is in the store, if anywhere. One that
      // was made anew (a start that a dying spawner had not acknowledged) goes on in the new file.
      if ((await tail.replaced()) || (await this.#endedElsewhere(attempt))) break;
    }
    const { closing, seq } = tail;
    await tail.close();
    this.#opened = null;
    if (closing?.kind === 'end') return { next: 'done', seq };
    if (closing === null) return yield* this.#fromStore(attempt, seq);
    return { next: 'attempt', seq: 0 };
  }

  async *#fromStore(attempt: number, afterSeq: number): AsyncGenerator<Buffer, Closed, undefined> {
    const { pool } = this.#sources;
    const { jobId } = this.#row;
    // The row first: what it says has ended is wholly stored by the time of the second query.
    const row = await this.#whenThere(() => readJob(pool, jobId));
    if (row === AWAY) return { next: 'wait', seq: afterSeq };
    // Erased in the meantime.
    if (row === null) return { next: 'done', seq: afterSeq };
    if (this.#isOwnEnd(row, attempt)) {
      if (afterSeq === 0 && row.endLine !== null) yield row.endLine;
      return { next: 'done', seq: 1 };
    }
    let seq = afterSeq;
    while (row.node !== null) {
      const stored = await this.#whenThere(() => readStored(pool, jobId, attempt, seq));
      if (stored === AWAY) return { next: 'wait', seq };
      if (stored === null) break;
      yield stored.lines;
      seq = stored.lastSeq;
      const closing = closingOf(stored.lines, jobId, attempt);
      if (closing !== null)
        return closing.kind === 'end' ? { next: 'done', seq } : { next: 'attempt', seq: 0 };
    }
    // An attempt that was never accepted has no lines at all.
    if (row.attempt > attempt) return { next: 'attempt', seq: 0 };
    return { next: row.state === 'ended' || !this.#follow ? 'done' : 'wait', seq };
  }

  /** AWAY while the database cannot be reached: a stream that follows outlives that. */
  async #whenThere<T>(look: () => Promise<T>): Promise<T | typeof AWAY> {
    try {
      return await look();
    } catch (error) {
      if (this.#follow && isDatabaseAway(error)) return AWAY;
      throw error;
    }
  }

  async #endedElsewhere(attempt: number): Promise<boolean> {
    const row = await this.#whenThere(() => readJob(this.#sources.pool, this.#row.jobId));
    return row !== AWAY && (row === null || row.state === 'ended' || row.attempt > attempt);
  }

  #isOwnEnd(row: JobRow, attempt: number): boolean {
    return row.endLine !== null && attempt === endAttempt(row);
  }

  #path(attempt: number): string {
    return spoolPath(this.#sources.stateDir, this.#row.jobId, attempt);
  }
}

interface Closed {
  /** The job has no more lines, this attempt has none, or more may come after line `seq`. */
  next: 'done' | 'attempt' | 'wait';
  seq: number;
}
