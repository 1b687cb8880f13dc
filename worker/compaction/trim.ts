// Decides what to leave out when a conversation is too long. Pure and at no cost; moves watermarks only between
// entries, so a call and its result stay together, and the last user message always stays.
import type { Conversation } from '../conversation.ts';
import { buildBody, entryMessages, renderMessages } from '../messages.ts';
import type { ModelEntry } from '../protocol.ts';
import type { View } from '../session/record.ts';
import { estimateTokens, inputLimit } from './estimate.ts';

/** Tokens of a request under a view. */
export function viewTokens(conversation: Conversation, view: View, entry: ModelEntry): number {
  const body = buildBody(entry, renderMessages(conversation, view), conversation.context);
  return estimateTokens(conversation, entry, body);
}

/** Moves one watermark of a view. */
interface Stage {
  at(view: View): number;
  move(view: View, seq: number): View;
}

/** What tells least goes first: reasoning that nobody asks for, then old results, then whole rounds. */
const STAGES: readonly Stage[] = [
  {
    at: (view) => view.reasoningBefore ?? 0,
    move: (view, seq) => ({ ...view, reasoningBefore: seq }),
  },
  { at: (view) => view.resultsBefore, move: (view, seq) => ({ ...view, resultsBefore: seq }) },
  { at: (view) => view.roundsBefore, move: (view, seq) => ({ ...view, roundsBefore: seq }) },
];

/**
 * Moves one watermark, entry by entry from the oldest, until the request fits; the last entry is never touched.
 * Costs are summed per entry, so that the search is linear in the length of the conversation.
 */
function firstFit(
  conversation: Conversation,
  from: View,
  stage: Stage,
  targetTokens: number,
  entry: ModelEntry,
): View {
  const keptUser = conversation.lastUser;
  const later = conversation.entries.slice(1).map((one) => one.seq);
  const seqs = later.filter((seq) => seq > stage.at(from));
  const last = seqs.at(-1);
  if (last === undefined) return from;
  const cost = (view: View, index: number): number => {
    const one = conversation.entries[index];
    if (one === undefined) return 0;
    return estimateTokens(conversation, entry, buildBody(entry, entryMessages(one, view, keptUser)));
  };
  const most = stage.move(from, last);
  let tokens = viewTokens(conversation, from, entry);
  let index = 0;
  for (const seq of seqs) {
    for (; (conversation.entries[index]?.seq ?? seq) < seq; index += 1) {
      tokens -= cost(from, index) - cost(most, index);
    }
    if (tokens <= targetTokens) return stage.move(from, seq);
  }
  return most;
}

export interface Need {
  targetTokens: number;
  /** True: the provider refused the request as it is, so any smaller one is better than none. */
  refused?: boolean;
}

/** Also the results of the last round: the model is told how long they were, and can ask for less at a time. */
function lastResort(conversation: Conversation, view: View): View {
  return { ...view, resultsBefore: (conversation.entries.at(-1)?.seq ?? 0) + 1 };
}

/**
 * A view that brings the request to `targetTokens` when that is possible, else the smallest one; null when it
 * fits already or nothing more can be left out. The last round is touched only when nothing can be sent otherwise.
 */
export function planTrim(conversation: Conversation, need: Need, entry: ModelEntry): View | null {
  const { targetTokens, refused = false } = need;
  let view = conversation.view;
  const before = viewTokens(conversation, view, entry);
  let tokens = before;
  for (const stage of STAGES) {
    if (tokens <= targetTokens) break;
    const next = firstFit(conversation, view, stage, targetTokens, entry);
    const nextTokens = viewTokens(conversation, next, entry);
    // A watermark that brings nothing stays where it is.
    if (nextTokens < tokens) [view, tokens] = [next, nextTokens];
  }
  if (tokens > inputLimit(entry) || (refused && tokens >= before)) {
    const least = lastResort(conversation, view);
    const leastTokens = viewTokens(conversation, least, entry);
    if (leastTokens < tokens) [view, tokens] = [least, leastTokens];
  }
  return tokens < before ? view : null;
}
