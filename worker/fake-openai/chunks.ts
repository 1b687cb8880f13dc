// Chunks of a streamed chat completion, as objects. Pure.

const frame = { id: 'chatcmpl-fake', object: 'chat.completion.chunk', created: 0, model: 'fake' };

export interface Chunk {
  choices?: unknown;
  usage?: unknown;
  [name: string]: unknown;
}

/** Any delta of the first choice. */
export function deltaChunk(delta: Record<string, unknown>, finish: string | null = null): Chunk {
  return { ...frame, choices: [{ index: 0, delta, finish_reason: finish }] };
}

export const contentChunk = (text: string): Chunk => deltaChunk({ content: text });
export const reasoningChunk = (text: string): Chunk => deltaChunk({ reasoning_content: text });

/** A whole tool call in one delta. `args` is the arguments object, or their text as it is to be sent. */
export function toolCallChunk(
  name: string,
  args: Record<string, unknown> | string = {},
  options: { id?: string; index?: number } = {},
): Chunk {
  const { index = 0, id = `call_${name}_${index}` } = options;
  const text = typeof args === 'string' ? args : JSON.stringify(args);
  return deltaChunk({ tool_calls: [{ index, id, type: 'function', function: { name, arguments: text } }] });
}

/** A further piece of the arguments of the call with this index. */
export const argumentsChunk = (text: string, index = 0): Chunk =>
  deltaChunk({ tool_calls: [{ index, function: { arguments: text } }] });

export const finishChunk = (reason: string): Chunk => deltaChunk({}, reason);

export function usageChunk(promptTokens: number, completionTokens: number): Chunk {
  const usage = {
    prompt_tokens: promptTokens,
    completion_tokens: completionTokens,
    total_tokens: promptTokens + completionTokens,
  };
  return { ...frame, choices: [], usage };
}

type Choice = { delta?: { tool_calls?: unknown }; finish_reason?: unknown };
const choicesOf = (chunk: Chunk): Choice[] =>
  Array.isArray(chunk.choices) ? (chunk.choices as Choice[]) : [];

/**
 * Adds what a well-behaved server would send too: the role, a finish, usage when `promptTokens` is not null. What the
 * chunks bring themselves is kept.
 */
export function completeChunks(chunks: readonly Chunk[], promptTokens: number | null): Chunk[] {
  const choices = chunks.flatMap(choicesOf);
  const complete = [deltaChunk({ role: 'assistant', content: '' }), ...chunks];
  if (!choices.some((choice) => typeof choice?.finish_reason === 'string')) {
    const calls = choices.some((choice) => choice?.delta?.tool_calls !== undefined);
    complete.push(finishChunk(calls ? 'tool_calls' : 'stop'));
  }
  const hasUsage = chunks.some((chunk) => chunk.usage !== undefined && chunk.usage !== null);
  if (!hasUsage && promptTokens !== null) complete.push(usageChunk(promptTokens, Math.max(1, chunks.length)));
  return complete;
}

type CallPiece = { index: number; function?: { name?: string; arguments?: string } };
type MessagePiece = { content?: unknown; reasoning_content?: unknown; tool_calls?: CallPiece[] };

const joined = (pieces: MessagePiece[], field: 'content' | 'reasoning_content'): string =>
  pieces.map((piece) => (typeof piece[field] === 'string' ? piece[field] : '')).join('');

/** The chunks as one answer, for a request that asked for no stream. */
export function wholeCompletion(chunks: readonly Chunk[], promptTokens: number): Record<string, unknown> {
  const complete = completeChunks(chunks, promptTokens);
  const choices = complete.flatMap(choicesOf);
  const pieces = choices.map((choice) => (choice.delta ?? {}) as MessagePiece);
  const calls = new Map<number, Record<string, unknown>>();
  for (const { index, ...piece } of pieces.flatMap((one) => one.tool_calls ?? [])) {
    const before = calls.get(index) as { function: { name: string; arguments: string } } | undefined;
    if (before === undefined) calls.set(index, { ...piece, function: { ...piece.function } });
    else before.function.arguments += piece.function?.arguments ?? '';
  }
  const reasoning = joined(pieces, 'reasoning_content');
  const message = {
    role: 'assistant',
    content: joined(pieces, 'content') || null,
    ...(reasoning === '' ? {} : { reasoning_content: reasoning }),
    ...(calls.size === 0 ? {} : { tool_calls: [...calls.values()] }),
  };
  const finish = choices.findLast((choice) => typeof choice.finish_reason === 'string')?.finish_reason;
  const usage = complete.findLast((chunk) => chunk.usage !== undefined)?.usage;
  return {
    ...frame,
    object: 'chat.completion',
    choices: [{ index: 0, message, finish_reason: finish }],
    usage,
  };
}
