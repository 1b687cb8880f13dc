// Turns the conversation into the messages of a request. Pure and deterministic: same log, same bytes.
import { guessTokens } from './compaction/calibration.ts';
import type { AssistantEntry, Conversation, Entry, ToolResultRecord, UserEntry } from './conversation.ts';
import type { ModelEntry } from './protocol.ts';
import type { View } from './session/record.ts';

/**
 * How records become bytes; logged with each request. Raise it whenever the same records give other bytes, and keep the
 * older form in ledger.ts where that is cheap; requests in a form that is not known count as unverified.
 * 2: `messagesFor`.
 */
export const RENDERING = 2;

type Part = { type: 'text'; text: string } | { type: 'image_url'; image_url: { url: string } };

export interface ChatMessage {
  role: 'system' | 'user' | 'assistant' | 'tool';
  content: string | Part[] | null;
  tool_call_id?: string;
  tool_calls?: { id: string; type: 'function'; function: { name: string; arguments: string } }[];
  reasoning_content?: string;
  reasoning?: string;
  /** The model that wrote it; never sent. */
  writer?: string;
}

/** What an unanswered call of an old round gets: the run died, and a later one went on without it. */
const NO_RESULT = 'interrupted: this call has no recorded result';
const IMAGE_NOTE = 'The image of the tool result above:';
/** Results up to this length stay when old results are dropped. */
const KEPT_RESULT_LENGTH = 200;
const SUMMARY_INTRO = 'Summary of the earlier conversation, which was left out to fit the context:\n\n';
const TRIM_NOTE = 'The earlier part of this conversation was left out to fit the context.';

const imagePart = (image: { mediaType: string; data: string }): Part => ({
  type: 'image_url',
  image_url: { url: `data:${image.mediaType};base64,${image.data}` },
});

/** Arguments as a history may hold them: JSON text of an object. Others were answered by an error, never run. */
function historyArguments(text: string): string {
  try {
    const value: unknown = JSON.parse(text);
    if (typeof value === 'object' && value !== null && !Array.isArray(value)) return text;
  } catch {
    // Answered by an error result that quotes it.
  }
  return '{}';
}

function userMessage(entry: UserEntry): ChatMessage {
  const images = entry.data.images ?? [];
  if (images.length === 0) return { role: 'user', content: entry.data.text };
  return { role: 'user', content: [{ type: 'text', text: entry.data.text }, ...images.map(imagePart)] };
}

function resultText(result: ToolResultRecord | undefined, shortened: boolean): string {
  if (result === undefined) return NO_RESULT;
  if (!shortened || result.content.length <= KEPT_RESULT_LENGTH) return result.content;
  return `[${result.content.length} characters of output were left out to fit the context]`;
}

/**
 * Reasoning that goes back: on rounds with calls and on no others, as providers that think between calls want it.
 * Those that name it `reasoning_content` refuse a round without it once their cache is cold, so the trim spares it.
 */
function keptReasoning({ seq, data }: AssistantEntry, view: View): Partial<ChatMessage> {
  if (data.reasoningField === null || data.reasoning === '') return {};
  if (data.reasoningField === 'reasoning' && seq < (view.reasoningBefore ?? 0)) return {};
  return { [data.reasoningField]: data.reasoning, writer: data.model };
}

/** The answer, one tool message per call in order, then one user message with the images of the results. */
function roundMessages(entry: AssistantEntry, view: View): ChatMessage[] {
  const { data, results } = entry;
  const shortened = entry.seq < view.resultsBefore;
  if (data.calls.length === 0) {
    return data.text === '' ? [] : [{ role: 'assistant', content: data.text }];
  }
  const answer: ChatMessage = {
    role: 'assistant',
    content: data.text === '' ? null : data.text,
    tool_calls: data.calls.map((call) => ({
      id: call.id,
      type: 'function',
      function: { name: call.name || 'unknown', arguments: historyArguments(call.arguments) },
    })),
    ...keptReasoning(entry, view),
  };
  const messages: ChatMessage[] = [answer];
  const images: Part[] = [];
  for (const call of data.calls) {
    const result = results.get(call.id);
    messages.push({ role: 'tool', tool_call_id: call.id, content: resultText(result, shortened) });
    if (result?.image !== undefined && !shortened) images.push(imagePart(result.image));
  }
  if (images.length > 0)
    messages.push({ role: 'user', content: [{ type: 'text', text: IMAGE_NOTE }, ...images] });
  return messages;
}

/** The messages of one entry under a view; none when it was left out. */
export function entryMessages(entry: Entry, view: View, keptUser: UserEntry | null): ChatMessage[] {
  if (entry.seq < view.roundsBefore && entry !== keptUser) return [];
  return entry.kind === 'user' ? [userMessage(entry)] : roundMessages(entry, view);
}

/** What stands before the entries: system prompt, stand-in for what was left out. */
export function openingMessages({ context }: Conversation, view: View): ChatMessage[] {
  const messages: ChatMessage[] = [];
  const prompt = context?.systemPrompt ?? '';
  if (prompt !== '') messages.push({ role: 'system', content: prompt });
  if (view.summary !== null) messages.push({ role: 'user', content: `${SUMMARY_INTRO}${view.summary}` });
  else if (view.roundsBefore > 0) messages.push({ role: 'user', content: TRIM_NOTE });
  return messages;
}

/** All messages of the next request: the opening, then the entries of the view. */
export function renderMessages(conversation: Conversation, view: View = conversation.view): ChatMessage[] {
  const messages = openingMessages(conversation, view);
  const keptUser = conversation.lastUser;
  for (const entry of conversation.entries) messages.push(...entryMessages(entry, view, keptUser));
  return messages;
}

export interface RequestBody {
  text: string;
  /** UTF-16 units of the text without image data. */
  length: number;
  /** Guessed tokens of that text, before calibration. */
  guess: number;
  images: number;
}

/**
 * What of a model's entry shapes a body. A field that is added here must be added to the `request` record too, or
 * requests are refused as not derivable from the log.
 */
export type BodyOptions = Pick<ModelEntry, 'id' | 'outputLimit'>;

type ReasoningField = 'reasoning' | 'reasoning_content';

/** The fields under which this model has written reasoning that goes back. */
export function ownReasoning(model: string, messages: readonly ChatMessage[]): Set<ReasoningField> {
  const own = messages.filter((message) => message.writer === model);
  return new Set(own.map((one) => (one.reasoning === undefined ? 'reasoning_content' : 'reasoning')));
}

/**
 * The messages as a model gets them: reasoning only under a name that it has itself written some under. Others refuse
 * a field that they do not know.
 */
export function messagesFor(
  own: ReadonlySet<ReasoningField>,
  messages: readonly ChatMessage[],
): ChatMessage[] {
  return messages.map((message) => {
    if (message.writer === undefined) return message;
    const { writer, reasoning, reasoning_content, ...rest } = message;
    const field = reasoning === undefined ? 'reasoning_content' : 'reasoning';
    return own.has(field) ? { ...rest, [field]: reasoning ?? reasoning_content } : rest;
  });
}

/** The body of a request, byte for byte the same whenever it is made from the same log. */
export function buildBody(
  entry: BodyOptions,
  messages: ChatMessage[],
  tools: Conversation['context'] = null,
): RequestBody {
  const definitions = tools?.tools ?? [];
  const text = JSON.stringify({
    model: entry.id,
    messages: messagesFor(ownReasoning(entry.id, messages), messages),
    ...(definitions.length === 0
      ? {}
      : { tools: definitions.map((tool) => ({ type: 'function', function: tool })) }),
    ...(entry.outputLimit === undefined ? {} : { max_tokens: entry.outputLimit }),
    stream: true,
    stream_options: { include_usage: true },
  });
  let images = 0;
  let imageLength = 0;
  for (const message of messages) {
    if (!Array.isArray(message.content)) continue;
    for (const part of message.content) {
      if (part.type !== 'image_url') continue;
      images += 1;
      imageLength += part.image_url.url.length;
    }
  }
  const guess = guessTokens(text.length - imageLength, Buffer.byteLength(text) - imageLength);
  return { text, length: text.length - imageLength, guess, images };
}
