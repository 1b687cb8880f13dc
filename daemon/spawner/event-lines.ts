// Turns a program's stdout lines into the lines of its attempt: checks each, refuses what is not the protocol,
// adds seq, ts, jobId and attempt. Pure but for the clock; knows nothing of files.
import { checkEvent, type WorkerEventType } from '../../worker/protocol.ts';
import type { AttemptRef } from './wire.ts';

/** What the program's own events say about the end of its run. */
export interface ProtocolState {
  /** Type of the last event that was admitted. */
  lastType: WorkerEventType | null;
  /** It went on after `done`. */
  wentOn: boolean;
  /** The last `error` event. */
  error: { code: string; message: string } | null;
  rejectedLines: number;
  /** Why the first rejected line was rejected. */
  firstRejection: string | null;
}

export interface EventLines {
  /** Takes whole lines (the last may lack its LF); returns what is to be appended, or null when nothing was admitted. */
  take(block: Buffer): string | null;
  /** One line of the spawner's own. */
  own(fields: { type: string } & Record<string, unknown>): Buffer;
  /** Counts a line that never got here. */
  reject(reason: string): void;
  /** Takes the numbering back to the last line that is really in the spool. */
  rewind(seq: number): void;
  readonly state: Readonly<ProtocolState>;
  /** The seq of the last line. */
  readonly seq: number;
}

/** A `token` whose text has no escapes: one name each, so its own bytes say the same to every reader. */
const PLAIN_TOKEN = /^\{"type":"token","text":"[ !#-[\]-\uffff]*"\}$/;
/** Told without parsing: a throw for each line of a flood would hold up every other job. */
const OBJECT_BEGINS = /^[ \t\r]*\{/;
/** More lines than this that are not the protocol, and the program is no engine: each costs a look at it. */
export const MAX_REJECTED_LINES = 10_000;
const MAX_CODE_CHARS = 128;
const MAX_MESSAGE_CHARS = 4096;

export function createEventLines(ref: AttemptRef, now: () => number = Date.now): EventLines {
  const state: ProtocolState = {
    lastType: null,
    wentOn: false,
    error: null,
    rejectedLines: 0,
    firstRejection: null,
  };
  const tail = `","jobId":"${ref.jobId}","attempt":${ref.attempt},`;
  let seq = 0;
  let stampMs = Number.NaN;
  let stamp = '';

  /** `{"seq":N,"ts":"…","jobId":"…","attempt":A,` */
  function prefix(): string {
    seq += 1;
    return `{"seq":${seq},"ts":"${stamp}${tail}`;
  }

  function setStamp(): void {
    const ms = now();
    if (ms === stampMs) return;
    stampMs = ms;
    stamp = new Date(ms).toISOString();
  }

  function reject(reason: string): void {
    state.rejectedLines += 1;
    state.firstRejection ??= reason;
  }

  /** The object's text after its `{`, LF included, or null when the line is refused. */
  function admit(line: string): string | null {
    if (!OBJECT_BEGINS.test(line)) {
      reject('not a JSON object');
      return null;
    }
    if (state.lastType === 'done') {
      state.wentOn = true;
      reject('an event after done');
      return null;
    }
    if (PLAIN_TOKEN.test(line)) {
      state.lastType = 'token';
      return line.slice(1);
    }
    let value: unknown;
    let text: string;
    try {
      value = JSON.parse(line);
      // Written anew: a line may name a key twice or hide it in escapes, and then readers disagree about it.
      // When nothing of that kind is in it, this gives the program's own bytes. Deep nesting throws here.
      text = JSON.stringify(value);
    } catch {
      reject('not valid JSON');
      return null;
    }
    const checked = checkEvent(value);
    if (!checked.ok) {
      reject(checked.reason);
      return null;
    }
    const { event } = checked;
    state.lastType = event.type;
    if (event.type === 'error') {
      state.error = {
        code: event.code.slice(0, MAX_CODE_CHARS),
        message: event.message.slice(0, MAX_MESSAGE_CHARS),
      };
    }
    return text.slice(1);
  }

  return {
    take(block) {
      setStamp();
      const text = block.toString('utf8');
      let out = '';
      for (let at = 0; at < text.length; ) {
        let end = text.indexOf('\n', at);
        if (end < 0) end = text.length;
        // An empty line is no event and no fault. Of a program that is given up the rest is not looked at.
        if (end > at && state.rejectedLines <= MAX_REJECTED_LINES) {
          const admitted = admit(text.slice(at, end));
          if (admitted !== null) out += `${prefix()}${admitted}\n`;
        }
        at = end + 1;
      }
      return out === '' ? null : out;
    },
    own(fields) {
      setStamp();
      return Buffer.from(`${prefix()}${JSON.stringify(fields).slice(1)}\n`, 'utf8');
    },
    reject,
    rewind(to) {
      seq = to;
    },
    state,
    get seq() {
      return seq;
    },
  };
}
