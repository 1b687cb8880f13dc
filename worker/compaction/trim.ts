// Decides what to leave out when a conversation is too long. Pure and at no cost; moves watermarks only between
// entries, so a call and its result stay together, and the last user message always stays.
import { type Conversation, lastUser } from '../conversation.ts';
import { buildBody, entryMessages, renderMessages } from '../messages.ts';
import type { ModelEntry } from '../protocol.ts';
import type { View } from '../session/record.ts';
import { estimateTokens } from './estimate.ts';

/** Tokens of a request under a view. */
export function viewTokens(conversation: Conversation, view: View, entry: ModelEntry): number {
  const body = buildBody(entry, renderMessages(conversation, view), conversation.context);
  return estimateTokens(conversation, body);
}

/** The watermarks after each entry but the last, which is never touched. */
function cuts(conversation: Conversation, after: number): number[] {
  const { entries } = conversation;
  return entries
    .slice(1)
    .map((entry) => entry.seq)
    .filter((seq) => seq > after);
}

/**
 * Moves the watermark that `make` sets, entry by entry from the oldest, until the request fits. Costs are summed
 * per entry, so that the search is linear in the length of the conversation.
 */
function firstFit(
  conversation: Conversation,
  from: View,
  targetTokens: number,
  entry: ModelEntry,
  make: (seq: number) => View,
  after: number,
): View | null {
  const keptUser = lastUser(conversation);
  const seqs = cuts(conversation, after);
  const last = seqs.at(-1);
  if (last === undefined) return null;
  const cost = (view: View, index: number): number => {
    const one = conversation.entries[index];
    if (one === undefined) return 0;
    return estimateTokens(conversation, buildBody(entry, entryMessages(one, view, keptUser)));
  };
  const most = make(last);
  let tokens = viewTokens(conversation, from, entry);
  let index = 0;
  for (const seq of seqs) {
    for (; (conversation.entries[index]?.seq ?? seq) < seq; index += 1) {
      tokens -= cost(from, index) - cost(most, index);
    }
    if (tokens <= targetTokens) return make(seq);
  }
  return most;
}

/**
 * A view that brings the request to `targetTokens` when that is possible, else the smallest one; null when it
 * fits already or nothing more can be left out. Old results go first, then whole rounds from the oldest.
 */
export function planTrim(conversation: Conversation, targetTokens: number, entry: ModelEntry): View | null {
  const start = conversation.view;
  const before = viewTokens(conversation, start, entry);
  if (before <= targetTokens) return null;
  const lean = firstFit(
    conversation,
    start,
    targetTokens,
    entry,
    (seq) => ({ ...start, resultsBefore: seq }),
    start.resultsBefore,
  );
  if (lean !== null && viewTokens(conversation, lean, entry) <= targetTokens) return lean;
  const leanest = lean ?? start;
  const short = firstFit(
    conversation,
    leanest,
    targetTokens,
    entry,
    (seq) => ({ ...leanest, roundsBefore: seq }),
    leanest.roundsBefore,
  );
  const best = short ?? leanest;
  return viewTokens(conversation, best, entry) < before ? best : null;
}
