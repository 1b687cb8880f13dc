// One line of the session log: its form, its check and the types of its data. Pure.
import type { PromptImage, Usage } from '../protocol.ts';
import { crc32Hex } from './crc32.ts';

/** Data of each record type. What a model sees is made of these and of nothing else. */
export interface RecordData {
  /** A run began. */
  run: {
    sessionId: string;
    engine: string;
    model: string;
    cwd: string;
    jobId?: string;
    attempt?: number;
    pid: number;
    /** The chain with the limits that shape requests; no address and no key. */
    models?: { id: string; inputLimit?: number; outputLimit?: number }[];
  };
  /** System prompt and tool definitions of the following requests. */
  context: { systemPrompt: string; tools: ToolDefinition[] };
  user: { text: string; images?: PromptImage[]; jobId?: string };
  /**
   * A request is about to be sent; `sha256` and `bytes` are those of its body. Whatever shapes the body is in here or
   * in earlier records, so that a reader of the log alone can make it again (ledger.ts).
   */
  request: {
    turn: number;
    model: string;
    sha256: string;
    bytes: number;
    maxTokens?: number;
    purpose: 'turn' | 'summary';
    /** How records become bytes: `RENDERING` of messages.ts when it was written; absent: 1. */
    rendering?: number;
    /** Of a summary: it is about the entries before this `seq`, in about so many tokens at most. */
    summary?: { before: number; maxTokens: number };
  };
  assistant: {
    model: string;
    text: string;
    reasoning: string;
    reasoningField: 'reasoning_content' | 'reasoning' | null;
    calls: { id: string; name: string; arguments: string }[];
    finish: string | null;
    usage: Usage | null;
    /** Length of the request's text without image data, and how many images it held. */
    requestLength: number;
    /** Guessed tokens of that text, before calibration; absent in the first logs. */
    requestGuess?: number;
    requestImages: number;
  };
  /** The answer to a summary request; `compact` tells what was made of it. */
  summary: { model: string; text: string; finish: string | null; calls: number; usage: Usage | null };
  /** A request failed. Kept so that the run can be run again; what the run did about it is in `fallback` and `end`. */
  failure: {
    model: string;
    kind: string;
    message: string;
    status?: number;
    retryAfterMs?: number;
    answered: boolean;
    usage?: Usage;
  };
  /** A tool body is about to run. Durable first for tools with side effects. */
  tool_started: {
    callId: string;
    name: string;
    effect: 'pure' | 'write' | 'exec';
    plan?: { path: string; before: string | null; after: string };
  };
  tool_result: {
    callId: string;
    name: string;
    content: string;
    isError: boolean;
    image?: { mediaType: string; data: string };
    /** The run died or was cancelled while the tool ran. */
    interrupted?: true;
    /** A guard denied the call: nothing of it ran. */
    refused?: true;
  };
  fallback: { from: string; to: string; reason: string; message: string };
  /** What requests leave out from here on; see `View`. */
  compact: { method: 'summary' | 'trim'; from: number; to: number; view: View };
  /** The records up to `at` are those of another session. */
  fork: { from: string; at: number };
  end: { outcome: 'done' | 'error'; turns: number; usage: Usage; code?: string; message?: string };
}

export interface ToolDefinition {
  name: string;
  description: string;
  parameters: Record<string, unknown>;
}

/** Watermarks in the log: what lies before them is left out of requests. */
export interface View {
  /** Rounds (an answer with all its results) and user messages before this `seq`; the last user message stays. */
  roundsBefore: number;
  /** Reasoning before this `seq` that no provider asks for; absent in the first logs. */
  reasoningBefore?: number;
  /** Long tool results and images before this `seq`. */
  resultsBefore: number;
  /** Stands for the rounds that were left out. */
  summary: string | null;
}

export type RecordType = keyof RecordData;
export type SessionRecord = {
  [T in RecordType]: { v: 1; seq: number; ts: string; type: T; data: RecordData[T] };
}[RecordType];

/** Records with a higher `v` were written by a later version, which alone knows what they mean. */
export const RECORD_VERSION = 1;

const CRC_FIELD = /,"crc":"([0-9a-f]{8})"\}$/;
const CRC_BYTES = ',"crc":"00000000"}'.length;
const BRACE = Buffer.from('}');

/** The record as a line without its LF. `crc` is the CRC-32 of the bytes of the same line without the `crc` field. */
export function formatRecord(seq: number, ts: string, type: RecordType, data: unknown): string {
  const text = JSON.stringify({ v: 1, seq, ts, type, data });
  return `${text.slice(0, -1)},"crc":"${crc32Hex(Buffer.from(text))}"}`;
}

/** The record as every later reader of its line will have it: what JSON does not carry is not in it. */
export const readBack = (line: string): SessionRecord => JSON.parse(line) as SessionRecord;

/** `newer` is the version of a whole record that this program cannot read. */
type ParsedRecord = { ok: true; record: SessionRecord } | { ok: false; reason: string; newer?: number };

/** The record of a line (without LF), or why it is none. Unknown types of this version are kept as they are. */
export function parseRecord(line: Buffer): ParsedRecord {
  const found = CRC_FIELD.exec(line.subarray(Math.max(0, line.length - CRC_BYTES)).toString('latin1'));
  if (found === null) return { ok: false, reason: 'no checksum' };
  if (crc32Hex(line.subarray(0, line.length - CRC_BYTES), BRACE) !== found[1]) {
    return { ok: false, reason: 'wrong checksum' };
  }
  let value: unknown;
  try {
    value = JSON.parse(line.toString('utf8'));
  } catch {
    return { ok: false, reason: 'not JSON' };
  }
  const record = value as SessionRecord;
  const version: unknown = record.v;
  if (version !== RECORD_VERSION) {
    const newer = typeof version === 'number' && version > RECORD_VERSION ? { newer: version } : {};
    return { ok: false, reason: `version ${String(version)}`, ...newer };
  }
  if (!Number.isSafeInteger(record.seq) || record.seq < 1) return { ok: false, reason: 'no seq' };
  if (typeof record.type !== 'string' || typeof record.data !== 'object' || record.data === null) {
    return { ok: false, reason: 'no type or data' };
  }
  return { ok: true, record };
}
