// What a session log says at a glance. Pure.
import { applyRecord, createConversation, pendingCalls } from '../conversation.ts';
import { excerpt } from '../text.ts';
import type { RecordType, SessionRecord } from './record.ts';

export interface SessionSummary {
  sessionId: string;
  /** When the first and the last record were written. */
  began: string;
  last: string;
  records: number;
  runs: number;
  requests: number;
  /** How its last run ended; `open`: it has no end, its process died or is still at work. */
  state: 'done' | 'error' | 'open';
  /** The error code of its last run. */
  code?: string;
  model: string;
  /** Tokens as the providers reported them, over all runs that ended. */
  tokens: number;
  /** Begin of the first prompt. */
  prompt: string;
  /** The session it was forked from, and after which record. */
  fork?: { from: string; at: number };
}

const PROMPT_LENGTH = 200;

export function summarize(sessionId: string, records: readonly SessionRecord[]): SessionSummary {
  const summary: SessionSummary = {
    sessionId,
    began: records[0]?.ts ?? '',
    last: records.at(-1)?.ts ?? '',
    records: records.length,
    runs: 0,
    requests: 0,
    state: 'open',
    model: '',
    tokens: 0,
    prompt: '',
  };
  for (const record of records) {
    if (record.type === 'run') {
      summary.runs += 1;
      summary.model = record.data.model;
      summary.state = 'open';
      delete summary.code;
    } else if (record.type === 'request') summary.requests += 1;
    else if (record.type === 'user' && summary.prompt === '') {
      summary.prompt = excerpt(record.data.text, PROMPT_LENGTH);
    } else if (record.type === 'fork') summary.fork = record.data;
    else if (record.type === 'end') {
      summary.state = record.data.outcome;
      summary.tokens += record.data.usage.totalTokens;
      if (record.data.code !== undefined) summary.code = record.data.code;
    }
  }
  return summary;
}

export interface SessionStep {
  seq: number;
  ts: string;
  type: RecordType;
  /** Its gist. */
  text: string;
  /** True when no call waits for its result after it: a fork here adds nothing. */
  whole: boolean;
}

function gist(record: SessionRecord): string {
  switch (record.type) {
    case 'run':
      return `${record.data.model} in ${record.data.cwd}`;
    case 'context':
      return `${record.data.tools.map((tool) => tool.name).join(' ')}`;
    case 'user':
    case 'summary':
      return record.data.text;
    case 'request':
      return `${record.data.model}, ${record.data.bytes} bytes, sha256 ${record.data.sha256.slice(0, 12)}`;
    case 'assistant': {
      const calls = record.data.calls.map((call) => `${call.name} ${call.arguments}`);
      return [record.data.text, ...calls].filter((text) => text !== '').join(' | ');
    }
    case 'tool_started':
      return record.data.name;
    case 'tool_result':
      return `${record.data.name}${record.data.isError ? ' failed' : ''}: ${record.data.content}`;
    case 'failure':
      return `${record.data.model}: ${record.data.kind}: ${record.data.message}`;
    case 'fallback':
      return `${record.data.from} to ${record.data.to}: ${record.data.reason}`;
    case 'compact':
      return `${record.data.method}: ${record.data.from} to ${record.data.to} tokens`;
    case 'fork':
      return `from ${record.data.from} after record ${record.data.at}`;
    case 'end':
      return [record.data.outcome, record.data.code, record.data.message].filter(Boolean).join(' ');
    default:
      return '';
  }
}

/** One step per record, each with at most `length` units of text. */
export function stepsOf(records: readonly SessionRecord[], length: number): SessionStep[] {
  const conversation = createConversation();
  return records.map((record) => {
    applyRecord(conversation, record);
    const { seq, ts, type } = record;
    return { seq, ts, type, text: excerpt(gist(record), length), whole: pendingCalls(conversation) === null };
  });
}
