// Reads token counts from an answer as it passes, without changing or holding it: server-sent events or one JSON text.
import type { TokenCount } from './types.ts';

export interface UsageReader {
  push(chunk: Buffer): void;
  /** The last figure seen, or null. Call it once, at the end. */
  result(): TokenCount | null;
}

/** A longer line or answer is passed on, but not read. */
const MOST_BYTES = 8 * 1024 * 1024;
const LF = 10;
const CR = 13;

/** Usage in the last chunk (OpenAI), in every chunk (vLLM) or inside the choice (Moonshot): the last one counts. */
export function createStreamUsage(): UsageReader {
  let last: TokenCount | null = null;
  let parts: Buffer[] = [];
  let size = 0;
  const finishLine = () => {
    if (size > 0 && size <= MOST_BYTES) last = readLine(Buffer.concat(parts)) ?? last;
    parts = [];
    size = 0;
  };
  const add = (piece: Buffer) => {
    size += piece.length;
    if (size <= MOST_BYTES) parts.push(piece);
    else parts = [];
  };
  return {
    push(chunk) {
      let from = 0;
      for (;;) {
        const at = lineEnd(chunk, from);
        if (at === -1) break;
        add(chunk.subarray(from, at));
        finishLine();
        from = at + 1;
      }
      if (from < chunk.length) add(chunk.subarray(from));
    },
    result() {
      finishLine();
      return last;
    },
  };
}

/** For a whole JSON answer. */
export function createJsonUsage(): UsageReader {
  let parts: Buffer[] = [];
  let size = 0;
  return {
    push(chunk) {
      size += chunk.length;
      if (size <= MOST_BYTES) parts.push(chunk);
      else parts = [];
    },
    result: () => (size > MOST_BYTES ? null : readJson(Buffer.concat(parts).toString())),
  };
}

/** Lines end in LF, CRLF or CR alone; an empty line between CR and LF does no harm here. */
function lineEnd(chunk: Buffer, from: number): number {
  const lf = chunk.indexOf(LF, from);
  const cr = chunk.indexOf(CR, from);
  if (lf === -1 || cr === -1) return Math.max(lf, cr);
  return Math.min(lf, cr);
}

function readLine(line: Buffer): TokenCount | null {
  const text = line.toString();
  if (!/^\uFEFF?data:/.test(text) || !/"usage"\s*:\s*\{/.test(text)) return null;
  return readJson(text.slice(text.indexOf(':') + 1));
}

function readJson(text: string): TokenCount | null {
  try {
    return findUsage(JSON.parse(text));
  } catch {
    // Not JSON, so it carries no figure.
    return null;
  }
}

function findUsage(value: unknown): TokenCount | null {
  const answer = value as { usage?: unknown; choices?: { usage?: unknown }[] } | null;
  const usage = (answer?.usage ?? answer?.choices?.[0]?.usage) as Record<string, unknown> | null | undefined;
  if (usage === null || typeof usage !== 'object') return null;
  const inputTokens = count(usage.prompt_tokens ?? usage.input_tokens);
  const written = count(usage.completion_tokens ?? usage.output_tokens);
  if (inputTokens === null || written === null) return null;
  // Some providers leave reasoning out of completion_tokens, but not out of the total.
  const total = count(usage.total_tokens) ?? 0;
  return { inputTokens, outputTokens: Math.max(written, total - inputTokens) };
}

function count(value: unknown): number | null {
  return typeof value === 'number' && Number.isSafeInteger(value) && value >= 0 ? value : null;
}
