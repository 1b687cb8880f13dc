// Recognises answers to a prompt that did not fit and of which the provider said nothing. Pure.
import type { ModelEntry, Usage } from '../protocol.ts';
import { ModelError } from './errors.ts';

/** An answer cut this close to the window was cut by the window, whatever it says. */
const WINDOW_SHARE = 0.99;

/** Throws an `overflow` when the prompt was larger than the window, or the answer ended where the window ends. */
export function refuseSilentOverflow(entry: ModelEntry, usage: Usage | null, finish: string | null): void {
  if (usage === null || entry.inputLimit === undefined) return;
  const cut = finish === 'length' && usage.totalTokens >= entry.inputLimit * WINDOW_SHARE;
  if (usage.inputTokens > entry.inputLimit || cut) {
    throw new ModelError('overflow', `${usage.totalTokens} tokens do not fit the window`, { answered: true });
  }
}
