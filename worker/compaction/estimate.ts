// How many input tokens a request will cost. Pure: an estimate from the provider's own figures when there are any.
import { type Conversation, IMAGE_TOKENS } from '../conversation.ts';
import type { RequestBody } from '../messages.ts';
import type { ModelEntry } from '../protocol.ts';

/** Before the first figure: English is near 0.25 tokens per unit, code near 0.3, Chinese near 0.7. */
const FIRST_GUESS = 0.35;
/** Input limit of a model that names none. */
export const DEFAULT_INPUT_LIMIT = 128_000;
/** Share of the input limit at which the conversation is compacted, and the share it is brought down to. */
const TRIGGER = 0.7;
const TARGET = 0.4;

export function estimateTokens(
  conversation: Conversation,
  body: Pick<RequestBody, 'length' | 'images'>,
): number {
  return Math.ceil(body.length * (conversation.tokensPerUnit ?? FIRST_GUESS) + body.images * IMAGE_TOKENS);
}

export const inputLimit = (entry: ModelEntry): number => entry.inputLimit ?? DEFAULT_INPUT_LIMIT;
export const triggerTokens = (entry: ModelEntry): number => Math.floor(inputLimit(entry) * TRIGGER);
export const targetTokens = (entry: ModelEntry): number => Math.floor(inputLimit(entry) * TARGET);
