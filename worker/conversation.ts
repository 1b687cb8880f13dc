// The conversation as the log tells it: a fold over records, used alike for a resumed log and for each new record.
// Nothing else may add to it, so whatever a model sees is derivable from the log.
import { type Calibration, calibrate, createCalibration } from './compaction/calibration.ts';
import type { RecordData, SessionRecord, View } from './session/record.ts';

export type ToolCallRecord = RecordData['assistant']['calls'][number];
export type ToolResultRecord = RecordData['tool_result'];

export interface UserEntry {
  kind: 'user';
  seq: number;
  data: RecordData['user'];
}
/** An answer with the results of its calls: the unit that is never split. */
export interface AssistantEntry {
  kind: 'assistant';
  seq: number;
  data: RecordData['assistant'];
  started: Map<string, RecordData['tool_started']>;
  results: Map<string, ToolResultRecord>;
}
export type Entry = UserEntry | AssistantEntry;

export interface Conversation {
  context: RecordData['context'] | null;
  entries: Entry[];
  view: View;
  /** What the providers' figures said about the guesses of a request's tokens. */
  calibration: Calibration;
  /** Requests sent so far, over all runs. */
  requests: number;
  /** Results and starts that belong to no call: their answer was lost with a damaged record. */
  orphans: number;
  lastUser: UserEntry | null;
  /** Results that came for an answer other than the last entry: what was rendered of it is stale. */
  amended: number;
  /** Working directory of the last run. */
  cwd: string | null;
}

/** Flat estimate for one image, in tokens. */
export const IMAGE_TOKENS = 1000;

export function createConversation(): Conversation {
  return {
    context: null,
    entries: [],
    view: { roundsBefore: 0, resultsBefore: 0, summary: null },
    calibration: createCalibration(),
    requests: 0,
    orphans: 0,
    lastUser: null,
    amended: 0,
    cwd: null,
  };
}

/** The latest answer that has this call without a result (ids may repeat from round to round). */
function openRound(conversation: Conversation, callId: string): AssistantEntry | null {
  for (let index = conversation.entries.length - 1; index >= 0; index -= 1) {
    const entry = conversation.entries[index] as Entry;
    if (entry.kind !== 'assistant') continue;
    if (!entry.data.calls.some((call) => call.id === callId)) continue;
    return entry.results.has(callId) ? null : entry;
  }
  return null;
}

function measure(conversation: Conversation, data: RecordData['assistant']): void {
  if (data.usage === null || data.requestLength < 1) return;
  const inputTokens = data.usage.inputTokens - data.requestImages * IMAGE_TOKENS;
  // Logs of the first version have only the length.
  const guess = data.requestGuess ?? data.requestLength * 0.35;
  calibrate(conversation.calibration, { model: data.model, guess, inputTokens });
}

function freeze(value: unknown): void {
  if (typeof value !== 'object' || value === null || Object.isFrozen(value)) return;
  Object.freeze(value);
  for (const one of Object.values(value)) freeze(one);
}

/**
 * Takes one record, as read from its line. Its data is frozen: nobody can change what was said without saying it in
 * the log. Unknown types are ignored: a later version wrote them.
 */
export function applyRecord(conversation: Conversation, record: SessionRecord): void {
  freeze(record.data);
  switch (record.type) {
    case 'run':
      conversation.cwd = record.data.cwd;
      break;
    case 'context':
      conversation.context = record.data;
      break;
    case 'user':
      conversation.lastUser = { kind: 'user', seq: record.seq, data: record.data };
      conversation.entries.push(conversation.lastUser);
      break;
    case 'request':
      conversation.requests += 1;
      break;
    case 'assistant':
      measure(conversation, record.data);
      conversation.entries.push({
        kind: 'assistant',
        seq: record.seq,
        data: record.data,
        started: new Map(),
        results: new Map(),
      });
      break;
    case 'tool_started': {
      const round = openRound(conversation, record.data.callId);
      if (round === null) conversation.orphans += 1;
      else round.started.set(record.data.callId, record.data);
      break;
    }
    case 'tool_result': {
      const round = openRound(conversation, record.data.callId);
      if (round === null) conversation.orphans += 1;
      else {
        round.results.set(record.data.callId, record.data);
        if (round !== conversation.entries.at(-1)) conversation.amended += 1;
      }
      break;
    }
    case 'compact':
      conversation.view = record.data.view;
      break;
  }
}

/**
 * Calls of the last answer that have no result yet. A prompt may stand after it: it is logged before a run finishes
 * what an earlier one left. Older answers are never gone back to.
 */
export function pendingCalls(
  conversation: Conversation,
): { round: AssistantEntry; calls: ToolCallRecord[] } | null {
  const { entries } = conversation;
  let index = entries.length - 1;
  while (entries[index]?.kind === 'user') index -= 1;
  const last = entries[index];
  if (last?.kind !== 'assistant') return null;
  const calls = last.data.calls.filter((call) => !last.results.has(call.id));
  return calls.length === 0 ? null : { round: last, calls };
}
