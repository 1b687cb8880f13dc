// Makes the conversation shorter: by the model's summary (two tries) when rounds must go, else by the trim. Writes
// one `compact` record when it got shorter, and nothing when it did not.
import { buildBody, type ChatMessage } from '../messages.ts';
import type { Answer } from '../models/answer.ts';
import { ModelError } from '../models/errors.ts';
import type { ModelEntry } from '../protocol.ts';
import { type RunContext, record } from '../run-context.ts';
import type { View } from '../session/record.ts';
import { inputLimit, triggerTokens } from './estimate.ts';
import { summaryMessages } from './summary.ts';
import { planTrim, viewTokens } from './trim.ts';

const SUMMARY_TRIES = 2;
/** Share of the model's input limit that a summary request may use, at two units of text per token. */
const SUMMARY_INPUT_SHARE = 0.5;

/** Asks one model once, without tools and without retries. */
export type AskSummary = (entry: ModelEntry, messages: ChatMessage[]) => Promise<Answer>;

async function summarize(
  context: RunContext,
  entry: ModelEntry,
  plan: View,
  ask: AskSummary,
): Promise<View | null> {
  const maxLength = Math.floor(inputLimit(entry) * SUMMARY_INPUT_SHARE * 2);
  const messages = summaryMessages(context.conversation, plan.roundsBefore, maxLength);
  const inputLength = buildBody(entry, messages).length;
  const trimmedTokens = viewTokens(context.conversation, plan, entry);
  for (let tries = 0; tries < SUMMARY_TRIES; tries += 1) {
    try {
      const answer = await ask(entry, messages);
      const text = answer.text.trim();
      const view = { ...plan, summary: text };
      const fits =
        viewTokens(context.conversation, view, entry) < Math.max(trimmedTokens, triggerTokens(entry));
      if (answer.calls.length === 0 && text.length < inputLength / 2 && fits) return view;
      context.log('warn', 'the summary does not shorten the conversation', { length: text.length });
    } catch (error) {
      if (!(error instanceof ModelError) || error.kind === 'cancelled') throw error;
      context.log('warn', 'no summary', { model: entry.id, reason: error.kind, message: error.message });
    }
  }
  return null;
}

/**
 * Brings the next request to about `targetTokens` of this model. Gives false when nothing more can be left out; the
 * conversation is then as it was.
 */
export async function compactConversation(
  context: RunContext,
  entry: ModelEntry,
  targetTokens: number,
  ask: AskSummary,
): Promise<boolean> {
  const { conversation } = context;
  const from = viewTokens(conversation, conversation.view, entry);
  const plan = planTrim(conversation, targetTokens, entry);
  if (plan === null) return false;
  const dropsRounds = plan.roundsBefore > conversation.view.roundsBefore;
  // A summary is worth its request only when it brings the conversation back under the trigger.
  const worthwhile = dropsRounds && viewTokens(conversation, plan, entry) < triggerTokens(entry);
  const summarized = worthwhile ? await summarize(context, entry, plan, ask) : null;
  const view = summarized ?? plan;
  const method = summarized === null ? 'trim' : 'summary';
  const to = viewTokens(conversation, view, entry);
  await record(context, 'compact', { method, from, to, view });
  context.emit({ type: 'compact', from, to, method });
  return true;
}
