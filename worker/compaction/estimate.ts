// How many input tokens a request will cost. Pure: a guess from the text, corrected by the provider's own figures.
import { type Conversation, IMAGE_TOKENS } from '../conversation.ts';
import type { RequestBody } from '../messages.ts';
import type { ModelEntry } from '../protocol.ts';
import { scaleFor } from './calibration.ts';

/** Input limit of a model that names none. */
export const DEFAULT_INPUT_LIMIT = 128_000;
/** Share of the input limit at which the conversation is compacted, and the share it is brought down to. */
const TRIGGER = 0.7;
const TARGET = 0.4;

/** Tokens of this request for this model. */
export function estimateTokens(
  conversation: Conversation,
  entry: ModelEntry,
  body: Pick<RequestBody, 'guess' | 'images'>,
): number {
  return Math.ceil(body.guess * scaleFor(conversation.calibration, entry.id) + body.images * IMAGE_TOKENS);
}

export const inputLimit = (entry: ModelEntry): number => entry.inputLimit ?? DEFAULT_INPUT_LIMIT;
export const triggerTokens = (entry: ModelEntry): number => Math.floor(inputLimit(entry) * TRIGGER);
export const targetTokens = (entry: ModelEntry): number => Math.floor(inputLimit(entry) * TARGET);
