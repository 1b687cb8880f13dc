// Assembles the chunks of one chat completion into an answer. Pure; the finish decides, not the end of the bytes.
import type { Usage } from '../protocol.ts';
import { endsInHighSurrogate, wellFormed } from '../text.ts';
import { classifyStreamError, ModelError } from './errors.ts';
import { createPieceCollector, type ToolCall } from './tool-call-pieces.ts';

/** Longest answer (text, reasoning and arguments together) that is taken, in UTF-16 units. */
export const MAX_ANSWER_LENGTH = 8 * 1024 * 1024;

export interface Delta {
  text: string;
  reasoning: boolean;
}

export interface Answer {
  text: string;
  reasoning: string;
  /** Name of the field that brought the reasoning; it is sent back under the same name. */
  reasoningField: 'reasoning_content' | 'reasoning' | null;
  calls: ToolCall[];
  /** The provider's word, or null when only `[DONE]` ended the answer. */
  finish: string | null;
  usage: Usage | null;
}

export interface Assembler {
  /** Takes the data of one event and gives the text that it adds. Throws a ModelError for damage and errors. */
  accept(data: string): Delta[];
  /** True once the answer is complete: a finish reason or `[DONE]` was seen. */
  finished(): boolean;
  /** True once nothing more can come. */
  done(): boolean;
  /** Chunks of an answer so far; what only keeps the connection warm does not count, in whatever form it comes. */
  chunks(): number;
  /** The last figures, also of an answer that failed. */
  usage(): Usage | null;
  /** The finish reason, or null. */
  finish(): string | null;
  /** The answer. Throws a ModelError when it was cut (`early_end`), filtered or empty. */
  answer(callIdPrefix: string): { answer: Answer; rest: Delta[] };
}

type Json = Record<string, unknown>;
const asObject = (value: unknown): Json | null =>
  typeof value === 'object' && value !== null && !Array.isArray(value) ? (value as Json) : null;
const isCount = (value: unknown): value is number => Number.isSafeInteger(value) && (value as number) >= 0;

/** Data that only keeps a connection warm: `: ping`, `[PING]`, a few words. Without quotes and braces it is no damage. */
const KEEP_ALIVE = /^\s*(?:[:\w.\- ]{0,64}|\[[\w -]{1,32}\])\s*$/;

/** Parses one event's data. Broken keep-alives that come as data give null. */
function parseChunk(data: string): Json | null {
  try {
    const value: unknown = JSON.parse(data);
    // Gemini wraps its errors in a list.
    return asObject(Array.isArray(value) ? value[0] : value);
  } catch {
    if (KEEP_ALIVE.test(data)) return null;
    throw new ModelError('malformed', `malformed stream: ${data}`, { answered: true });
  }
}

/** The error that a chunk holds: nested, inside the choice (OpenRouter), or not nested (vLLM). */
function chunkError(chunk: Json, choice: Json | null): unknown {
  const nested = chunk.error ?? choice?.error;
  if (nested !== undefined && nested !== null) return nested;
  if (chunk.choices !== undefined || typeof chunk.message !== 'string') return null;
  return chunk.object === 'error' || chunk.code !== undefined || chunk.type !== undefined ? chunk : null;
}

/** The text of `content`, which is a string, null or an array of parts. */
function contentText(content: unknown): string {
  if (typeof content === 'string') return content;
  if (!Array.isArray(content)) return '';
  const texts = content.map((part) => asObject(part)?.text);
  return texts.filter((text) => typeof text === 'string').join('');
}

function readUsage(value: unknown): Usage | null {
  const usage = asObject(value);
  if (usage === null || !isCount(usage.prompt_tokens)) return null;
  const outputTokens = isCount(usage.completion_tokens) ? usage.completion_tokens : 0;
  const totalTokens = isCount(usage.total_tokens) ? usage.total_tokens : usage.prompt_tokens + outputTokens;
  return { inputTokens: usage.prompt_tokens, outputTokens, totalTokens };
}

/** Joins pieces and holds back a first half of a surrogate pair until its second half has come. */
function createJoiner(reasoning: boolean) {
  let whole = '';
  let held = '';
  return {
    add(piece: string): Delta[] {
      if (piece === '') return [];
      let text = held + piece;
      held = '';
      if (endsInHighSurrogate(text)) {
        held = text.slice(-1);
        text = text.slice(0, -1);
      }
      if (text === '') return [];
      text = wellFormed(text);
      whole += text;
      return [{ text, reasoning }];
    },
    flush(): Delta[] {
      if (held === '') return [];
      held = '';
      whole += '\uFFFD';
      return [{ text: '\uFFFD', reasoning }];
    },
    whole: () => whole,
  };
}

const SERVER_FINISHES = new Set(['error', 'network_error', 'insufficient_system_resource']);
const FILTER_FINISHES = new Set([
  'content_filter',
  'sensitive',
  'safety',
  'recitation',
  'prohibited_content',
]);

function refuseFinish(finish: string | null): void {
  if (finish === null) return;
  if (FILTER_FINISHES.has(finish.toLowerCase())) {
    throw new ModelError('content_filter', 'the provider filtered the answer', { answered: true });
  }
  if (finish === 'model_context_window_exceeded') {
    throw new ModelError('overflow', 'the context window was exceeded', { answered: true });
  }
  if (SERVER_FINISHES.has(finish)) {
    throw new ModelError('server', `the provider ended the answer: ${finish}`, { answered: true });
  }
}

/** Chunks go in as text; see `Assembler`. Usage is cumulative within one answer: the last figure counts. */
export function createAssembler(): Assembler {
  const text = createJoiner(false);
  const reasoning = createJoiner(true);
  const pieces = createPieceCollector();
  let reasoningField: Answer['reasoningField'] = null;
  let finish: string | null = null;
  let usage: Usage | null = null;
  let sawDone = false;
  let whole = false;
  let chunks = 0;

  const readReasoning = (message: Json): Delta[] => {
    const field = typeof message.reasoning_content === 'string' ? 'reasoning_content' : 'reasoning';
    const piece = message[field];
    if (typeof piece !== 'string' || piece === '') return [];
    reasoningField ??= field;
    return reasoning.add(piece);
  };

  const readChoice = (choice: Json): Delta[] => {
    if (typeof choice.finish_reason === 'string' && choice.finish_reason !== '')
      finish = choice.finish_reason;
    whole ||= choice.message !== undefined && choice.delta === undefined;
    const message = asObject(choice.delta) ?? asObject(choice.message);
    if (message === null) return [];
    const words = `${contentText(message.content)}${contentText(message.refusal)}`;
    const deltas = [...readReasoning(message), ...text.add(words)];
    if (Array.isArray(message.tool_calls)) for (const piece of message.tool_calls) pieces.add(piece);
    return deltas;
  };

  return {
    accept(data) {
      if (sawDone || data === '') return [];
      if (data.trim() === '[DONE]') {
        sawDone = true;
        return [];
      }
      const chunk = parseChunk(data);
      if (chunk === null) return [];
      if (text.whole().length + reasoning.whole().length + pieces.size() > MAX_ANSWER_LENGTH) {
        throw new ModelError('bad_request', 'the answer is too long', { answered: true });
      }
      const choices = Array.isArray(chunk.choices) ? chunk.choices.map(asObject) : [];
      const choice = choices.find((one) => one !== null && (one.index ?? 0) === 0) ?? null;
      const error = chunkError(chunk, choice);
      if (error !== null) throw classifyStreamError(error);
      if (Array.isArray(chunk.choices)) chunks += 1;
      usage = readUsage(chunk.usage) ?? readUsage(choice?.usage) ?? usage;
      return choice === null ? [] : readChoice(choice);
    },
    finished: () => finish !== null || sawDone || whole,
    done: () => sawDone,
    chunks: () => chunks,
    usage: () => usage,
    finish: () => finish,
    answer(callIdPrefix) {
      if (finish === null && !sawDone && !whole) {
        throw new ModelError('early_end', 'the stream ended before the answer was finished', {
          answered: true,
        });
      }
      refuseFinish(finish);
      const rest = [...reasoning.flush(), ...text.flush()];
      const calls = pieces.calls(callIdPrefix).map((call) => ({
        id: wellFormed(call.id),
        name: wellFormed(call.name),
        arguments: wellFormed(call.arguments),
      }));
      if (text.whole().trim() === '' && calls.length === 0) {
        throw new ModelError('empty', `the answer was empty (finish ${finish ?? 'none'})`, {
          answered: true,
        });
      }
      const answer = {
        text: text.whole(),
        reasoning: reasoning.whole(),
        reasoningField,
        calls,
        finish,
        usage,
      };
      return { answer, rest };
    },
  };
}
