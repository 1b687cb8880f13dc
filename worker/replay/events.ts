// The events of a recorded session, as a reader of its runs had them. Pure. Answers are recorded whole, so a text is
// one token event.
import { ERROR_CODES, type ErrorCode, isRetryable } from '../error-codes.ts';
import type { WorkerEvent } from '../protocol.ts';
import type { RecordData, SessionRecord } from '../session/record.ts';

/** An event with the number and the time of the record that it comes from. */
export type ReplayedEvent = WorkerEvent & {
  record: number;
  at: string;
  /** On `session`: the prompt that the run was given. */
  prompt?: string;
};

interface OpenRun {
  sessionId: string;
  text: string;
  finish: string | null;
}

const NO_END = {
  type: 'error',
  code: 'no_end' satisfies ErrorCode,
  message: 'the record of this run ends here: its process died, or is still at work',
  retryable: isRetryable('no_end'),
} as const;

function* answerEvents({ text, reasoning, calls }: RecordData['assistant']): Generator<WorkerEvent> {
  if (reasoning !== '') yield { type: 'token', text: reasoning, reasoning: true };
  if (text !== '') yield { type: 'token', text };
  for (const { id, name, arguments: args } of calls) yield { type: 'tool_call', id, name, arguments: args };
}

function endEvent(run: OpenRun, end: RecordData['end']): WorkerEvent {
  const { turns, usage, code = 'internal', message = '' } = end;
  if (end.outcome === 'done') {
    const { sessionId, text, finish } = run;
    const done = { type: 'done', sessionId, turns, usage, text } as const;
    return finish === 'length' ? { ...done, finishReason: 'length' } : done;
  }
  const retryable = code in ERROR_CODES && isRetryable(code as ErrorCode);
  return { type: 'error', code, message, retryable };
}

function* recordEvents(run: OpenRun, record: SessionRecord): Generator<WorkerEvent> {
  switch (record.type) {
    case 'assistant':
      run.text = record.data.text;
      run.finish = record.data.finish;
      yield* answerEvents(record.data);
      break;
    case 'tool_result': {
      const { callId, name, content, isError } = record.data;
      yield { type: 'tool_result', id: callId, name, content, isError };
      break;
    }
    case 'fallback': {
      const { from, to, reason } = record.data;
      yield { type: 'fallback', from, to, reason, discard: true };
      break;
    }
    case 'compact': {
      const { from, to, method } = record.data;
      yield { type: 'compact', from, to, method };
      break;
    }
    case 'end':
      yield endEvent(run, record.data);
  }
}

/** The prompt of the run that begins at this index. */
function promptOf(records: readonly SessionRecord[], index: number): { prompt?: string } {
  for (const record of records.slice(index + 1)) {
    if (record.type === 'user') return { prompt: record.data.text };
    if (record.type === 'run' || record.type === 'request' || record.type === 'end') break;
  }
  return {};
}

/** The events of all runs in order. Each run ends with one terminal event, if need be with `no_end`. */
export function* replayEvents(records: readonly SessionRecord[]): Generator<ReplayedEvent> {
  let run: OpenRun | null = null;
  let last = { record: 0, at: '' };
  for (const [index, record] of records.entries()) {
    const place = { record: record.seq, at: record.ts };
    if (run !== null && (record.type === 'run' || record.type === 'fork')) {
      yield { ...NO_END, ...last };
      run = null;
    }
    last = place;
    if (record.type === 'run') {
      const { sessionId, engine, model } = record.data;
      run = { sessionId, text: '', finish: null };
      const event = { type: 'session', sessionId, resumed: index > 0, engine, model } as const;
      yield { ...event, ...promptOf(records, index), ...place };
    } else if (run !== null) {
      for (const event of recordEvents(run, record)) yield { ...event, ...place };
      if (record.type === 'end') run = null;
    }
  }
  if (run !== null) yield { ...NO_END, ...last };
}
