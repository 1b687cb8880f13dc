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
  };
  /** System prompt and tool definitions of the following requests. */
  context: { systemPrompt: string; tools: ToolDefinition[] };
  user: { text: string; images?: PromptImage[]; jobId?: string };
  /** A request is about to be sent; `sha256` is that of its body. */
  request: {
    turn: number;
    model: string;
    sha256: string;
    bytes: number;
    maxTokens?: number;
    purpose: 'turn' | 'summary';
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

const CRC_FIELD = /,"crc":"([0-9a-f]{8})"\}$/;
const CRC_BYTES = ',"crc":"00000000"}'.length;
const BRACE = Buffer.from('}');

/** The record as a line without its LF. `crc` is the CRC-32 of the bytes of the same line without the `crc` field. */
export function formatRecord(seq: number, ts: string, type: RecordType, data: unknown): string {
  const text = JSON.stringify({ v: 1, seq, ts, type, data });
  return `${text.slice(0, -1)},"crc":"${crc32Hex(Buffer.from(text))}"}`;
}

/** The record of a line (without LF), or why it is none. Types of later versions are kept as they are. */
export function parseRecord(
  line: Buffer,
): { ok: true; record: SessionRecord } | { ok: false; reason: string } {
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
  if (record.v !== 1) return { ok: false, reason: `version ${String(record.v)}` };
  if (!Number.isSafeInteger(record.seq) || record.seq < 1) return { ok: false, reason: 'no seq' };
  if (typeof record.type !== 'string' || typeof record.data !== 'object' || record.data === null) {
    return { ok: false, reason: 'no type or data' };
  }
  return { ok: true, record };
}
