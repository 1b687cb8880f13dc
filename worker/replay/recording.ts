// A session log as something that can be run again: what each run was given, and what its models and tools answered.
// Pure.
import type { Answer } from '../models/answer.ts';
import { type FailureKind, ModelError } from '../models/errors.ts';
import type { PromptImage } from '../protocol.ts';
import type { RecordData, SessionRecord } from '../session/record.ts';

export type Outcome = { answer: Answer } | { failure: ModelError };

export interface RecordedRequest {
  seq: number;
  atMs: number;
  data: RecordData['request'];
  /** What came of it, in order: a request that failed may have been repeated byte for byte. */
  outcomes: Outcome[];
}

/** The part of a log that one run wrote. */
export interface RecordedRun {
  prompt?: string;
  images?: PromptImage[];
  models: { id: string; inputLimit?: number; outputLimit?: number }[];
  /** System prompt and tools of its requests. */
  context: RecordData['context'] | null;
  requests: RecordedRequest[];
  /** Null when the run died. */
  end: RecordData['end'] | null;
}

/** A result with the call that it answers. */
export interface RecordedResult {
  name: string;
  args: string;
  result: RecordData['tool_result'];
}

export interface Recording {
  runs: RecordedRun[];
  results: RecordedResult[];
  effects: Map<string, RecordData['tool_started']['effect']>;
}

const newRun = (context: RecordData['context'] | null): RecordedRun => ({
  models: [],
  context,
  requests: [],
  end: null,
});

function recordedFailure(
  data: Pick<RecordData['failure'], 'kind' | 'message'> & Partial<RecordData['failure']>,
): ModelError {
  const { kind, message, status, retryAfterMs, answered = true, usage } = data;
  const failure = new ModelError(kind as FailureKind, message, {
    answered,
    ...(status === undefined ? {} : { status }),
    ...(retryAfterMs === undefined ? {} : { retryAfterMs }),
  });
  failure.usage = usage ?? null;
  return failure;
}

/** A summary's calls were not kept, only that it had some: it was no summary then. */
function summaryAnswer({ text, finish, calls, usage }: RecordData['summary']): Answer {
  const some = Array.from({ length: calls }, (_, index) => ({
    id: `call_${index}`,
    name: '',
    arguments: '',
  }));
  return { text, reasoning: '', reasoningField: null, calls: some, finish, usage };
}

function answerOf(data: RecordData['assistant']): Answer {
  const { text, reasoning, reasoningField, calls, finish, usage } = data;
  return { text, reasoning, reasoningField, calls: [...calls], finish, usage };
}

/** Takes the records in order. Models that the log does not name with their limits are those of its requests. */
function takeRequest(run: RecordedRun, record: SessionRecord & { type: 'request' }): void {
  const { model: id, maxTokens } = record.data;
  run.requests.push({ seq: record.seq, atMs: Date.parse(record.ts), data: record.data, outcomes: [] });
  if (run.models.some((one) => one.id === id)) return;
  run.models.push({ id, ...(maxTokens === undefined ? {} : { outputLimit: maxTokens }) });
}

/** Version 0.1.0 kept no failures: what it did about them tells most of them. */
function takeOldFailure(run: RecordedRun, { from, to, reason, message }: RecordData['fallback']): void {
  const request = run.requests.at(-1);
  const isTold =
    request === undefined || request.outcomes.length > 0 || (from === to && reason === 'gateway');
  // An overflow was told after the compaction that it led to.
  if (!isTold && reason !== 'overflow')
    request.outcomes.push({ failure: recordedFailure({ kind: reason, message }) });
}

/** Version 0.1.0 kept no answers to summary requests, only those that were used. */
function takeOldSummary(run: RecordedRun, { view }: RecordData['compact']): void {
  const request = run.requests.at(-1);
  if (request?.data.purpose !== 'summary' || request.outcomes.length > 0 || view.summary === null) return;
  request.outcomes.push({
    answer: summaryAnswer({ model: '', text: view.summary, finish: 'stop', calls: 0, usage: null }),
  });
}

/** Reads the records after number `after`; a run that began before it is continued. */
export function readRecording(records: readonly SessionRecord[], after = 0): Recording {
  const recording: Recording = { runs: [], results: [], effects: new Map() };
  let context: RecordData['context'] | null = null;
  let models: RecordedRun['models'] = [];
  let run: RecordedRun | null = null;
  let calls = new Map<string, { name: string; args: string }>();
  const current = (): RecordedRun => {
    if (run === null) {
      run = { ...newRun(context), models: [...models] };
      recording.runs.push(run);
    }
    return run;
  };
  const outcome = (one: Outcome): void => void current().requests.at(-1)?.outcomes.push(one);
  for (const record of records) {
    if (record.type === 'context') {
      context = record.data;
      if (run !== null) current().context = context;
    }
    if (record.type === 'run') {
      models = record.data.models ?? [];
      run = null;
    }
    // A cut answer's calls are answered without running them, then and now.
    if (record.type === 'assistant' && record.data.finish !== 'length') {
      calls = new Map(record.data.calls.map((call) => [call.id, { name: call.name, args: call.arguments }]));
    }
    if (record.seq <= after) continue;
    switch (record.type) {
      case 'user': {
        const { text, images } = record.data;
        Object.assign(current(), { prompt: text, ...(images === undefined ? {} : { images }) });
        break;
      }
      case 'request':
        takeRequest(current(), record);
        break;
      case 'assistant':
        outcome({ answer: answerOf(record.data) });
        break;
      case 'summary':
        outcome({ answer: summaryAnswer(record.data) });
        break;
      case 'failure':
        outcome({ failure: recordedFailure(record.data) });
        break;
      case 'fallback':
        takeOldFailure(current(), record.data);
        break;
      case 'compact':
        takeOldSummary(current(), record.data);
        break;
      case 'tool_started':
        recording.effects.set(record.data.name, record.data.effect);
        break;
      case 'tool_result': {
        const call = calls.get(record.data.callId);
        if (call !== undefined) recording.results.push({ ...call, result: record.data });
        break;
      }
      case 'end':
        current().end = record.data;
        run = null;
    }
  }
  return recording;
}
