// Makes the conversation shorter: by the model's summary (two tries) when rounds must go, else by the trim. Writes
// one `compact` record when it got shorter, and nothing when it did not.
import type { ChatMessage } from '../messages.ts';
import type { Answer } from '../models/answer.ts';
import { type FailureKind, ModelError } from '../models/errors.ts';
import type { ModelEntry } from '../protocol.ts';
import { type RunContext, record } from '../run-context.ts';
import type { RecordData, View } from '../session/record.ts';
import { inputLimit, triggerTokens } from './estimate.ts';
import { MAX_SUMMARY_LENGTH, summaryMessages } from './summary.ts';
import { type Need, planTrim, viewTokens } from './trim.ts';

const SUMMARY_TRIES = 2;
/** Share of the model's input limit that a summary request may use; the second try gets half of it. */
const SUMMARY_INPUT_SHARE = 0.5;
/** Pause before the second try after a failure, and the longest one that a server may ask for. */
const PAUSE_MS = 500;
const MAX_PAUSE_MS = 20_000;

/** Failures that a second try can mend; after the others the trim is taken at once. */
const WORTH_ANOTHER_TRY: ReadonlySet<FailureKind> = new Set([
  'overflow',
  'rate_limit',
  'server',
  'network',
  'early_end',
  'malformed',
  'empty',
]);

/** From what a summary request is made; logged with it, so that its messages can be made again. */
export type SummarySpan = NonNullable<RecordData['request']['summary']>;

/** Asks one model once, without tools and without retries. `messages` are those that the log gives for the span. */
export type AskSummary = (entry: ModelEntry, messages: ChatMessage[], span: SummarySpan) => Promise<Answer>;

/** The view with this summary, or null when it is no summary or does not shorten the conversation. */
function summaryView(
  context: RunContext,
  entry: ModelEntry,
  { plan, answer }: { plan: View; answer: Answer },
): View | null {
  if (answer.calls.length > 0 || answer.finish === 'length') return null;
  if (answer.text.length > MAX_SUMMARY_LENGTH) return null;
  const view = { ...plan, summary: answer.text.trim() };
  const { conversation } = context;
  const [before, trimmed, tokens] = [conversation.view, plan, view].map((one) =>
    viewTokens(conversation, one, entry),
  ) as [number, number, number];
  // It may use up at most half of what leaving the rounds out brings.
  return tokens <= (before + trimmed) / 2 && tokens < triggerTokens(entry) ? view : null;
}

/** How long to wait before the second try, or null when there is none. */
function pauseMs(failure: ModelError): number | null {
  if (!WORTH_ANOTHER_TRY.has(failure.kind)) return null;
  if (failure.kind === 'overflow') return 0;
  const asked = failure.retryAfterMs ?? 0;
  return asked > MAX_PAUSE_MS ? null : Math.max(asked, PAUSE_MS);
}

async function summarize(
  context: RunContext,
  entry: ModelEntry,
  plan: View,
  ask: AskSummary,
): Promise<View | null> {
  let maxTokens = inputLimit(entry) * SUMMARY_INPUT_SHARE;
  for (let tries = 1; tries <= SUMMARY_TRIES; tries += 1) {
    try {
      const span = { before: plan.roundsBefore, maxTokens };
      const messages = summaryMessages(context.conversation, span, entry);
      const answer = await ask(entry, messages, span);
      const view = summaryView(context, entry, { plan, answer });
      if (view !== null) return view;
      const { length } = answer.text;
      context.log('warn', 'the summary does not shorten the conversation', { model: entry.id, length });
    } catch (error) {
      if (!(error instanceof ModelError) || error.kind === 'cancelled') throw error;
      context.log('warn', 'no summary', { model: entry.id, reason: error.kind, message: error.message });
      const pause = pauseMs(error);
      if (pause === null) return null;
      if (tries < SUMMARY_TRIES) await context.source.sleep(pause, context.signal);
    }
    maxTokens /= 2;
  }
  return null;
}

/**
 * Brings the next request to about `need.targetTokens` of this model. Gives false when nothing more can be left out; the
 * conversation is then as it was.
 */
export async function compactConversation(
  context: RunContext,
  entry: ModelEntry,
  need: Need,
  ask: AskSummary,
): Promise<boolean> {
  const { conversation } = context;
  const from = viewTokens(conversation, conversation.view, entry);
  const plan = planTrim(conversation, need, entry);
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
