// The agent loop: answer, calls, results, answer, until an answer has no calls. A function of its context alone.
import { type AssistantEntry, type Conversation, pendingCalls } from './conversation.ts';
import { RunError } from './failure.ts';
import { ModelError } from './models/errors.ts';
import { countRepeats } from './repeats.ts';
import { runRound } from './round.ts';
import { type RunContext, throwIfCancelled } from './run-context.ts';
import { askTurn } from './turn.ts';

/** Rounds in a row whose calls were cut at the output limit before the run gives up. */
const CUT_ROUNDS = 3;

/** The last entry when it is an answer that ends the run. */
export function finalAnswer(conversation: Conversation): AssistantEntry | null {
  const last = conversation.entries.at(-1);
  return last?.kind === 'assistant' && last.data.calls.length === 0 ? last : null;
}

function refuseEndlessCuts(conversation: Conversation): void {
  const latest = conversation.entries.slice(-CUT_ROUNDS);
  const cut = latest.filter((entry) => entry.kind === 'assistant' && entry.data.finish === 'length');
  if (cut.length === CUT_ROUNDS) {
    throw new ModelError('bad_request', `${CUT_ROUNDS} answers in a row were cut at the output limit`);
  }
}

function refuseCircles({ conversation, repeats }: RunContext): void {
  if (countRepeats(conversation, repeats) >= repeats) {
    throw new RunError('tool_loop', `the same calls gave the same results ${repeats} times in a row`);
  }
}

/**
 * Goes on from wherever the log stands: first the calls without a result, then the model. Resolves with the final
 * answer; rejects with a ModelError, a RunError or a StoreError.
 */
export async function runLoop(context: RunContext): Promise<AssistantEntry> {
  const { conversation } = context;
  for (;;) {
    throwIfCancelled(context.signal);
    const final = finalAnswer(conversation);
    if (final !== null) return final;
    const pending = pendingCalls(conversation);
    if (pending === null) {
      refuseEndlessCuts(conversation);
      refuseCircles(context);
      context.spending.check();
      await askTurn(context);
    } else {
      await runRound(context, pending.round, pending.calls);
    }
  }
}
