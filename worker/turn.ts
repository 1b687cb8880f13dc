// One turn: a request that the pool carries to some model, compacted before or after when it is too long, and its
// answer in the log. Runs no tools.
import { type Attempt, attempt, type Question } from './attempt.ts';
import { type AskSummary, compactConversation } from './compaction/compact.ts';
import { estimateTokens, targetTokens, triggerTokens } from './compaction/estimate.ts';
import { keptSummary } from './compaction/summary.ts';
import { viewTokens } from './compaction/trim.ts';
import { buildBody, renderMessages } from './messages.ts';
import { ModelError } from './models/errors.ts';
import { askPool, beginTurn as beginPoolTurn, type PoolPorts, type PoolTurn } from './models/pool.ts';
import type { ModelEntry } from './protocol.ts';
import { type RunContext, record } from './run-context.ts';

const COMPACTIONS_PER_TURN = 2;

interface Turn {
  pool: PoolTurn;
  ports: PoolPorts;
  /** Models for which the conversation was brought under the trigger, as far as it goes. */
  fitted: Set<ModelEntry>;
}

function beginTurn(context: RunContext): Turn {
  const ports: PoolPorts = {
    cooling: context.cooling,
    now: context.source.now,
    sleep: (ms) => context.source.sleep(ms, context.signal),
    onFallback: (from, to, failure) => sayFallback(context, from, to, failure),
  };
  return { pool: beginPoolTurn(context.models, ports), ports, fitted: new Set() };
}

/** Readers drop the text of the request that failed. */
async function sayFallback(
  context: RunContext,
  from: ModelEntry,
  to: ModelEntry,
  failure: ModelError,
): Promise<void> {
  const data = { from: from.id, to: to.id, reason: failure.kind };
  context.log('warn', 'model request failed', { ...data, message: failure.message });
  await record(context, 'fallback', { ...data, message: failure.message });
  context.emit({ type: 'fallback', ...data, discard: true });
}

/** Thrown instead of a request that is over the trigger of its model: nothing was sent. */
class TriggerReached extends ModelError {
  constructor() {
    super('overflow', 'the conversation is to be compacted');
  }
}

async function askModels(context: RunContext, turn: Turn): Promise<Attempt & { entry: ModelEntry }> {
  const messages = renderMessages(context.conversation);
  const question: Question = {
    onDelta: ({ text, reasoning }) =>
      context.emit(reasoning ? { type: 'token', text, reasoning } : { type: 'token', text }),
    logged: { sha256: '' },
  };
  const { answer, entry } = await askPool<Attempt>(turn.pool, turn.ports, async (entry) => {
    const body = buildBody(entry, messages, context.conversation.context);
    const tokens = estimateTokens(context.conversation, entry, body);
    if (!turn.fitted.has(entry) && tokens > triggerTokens(entry)) throw new TriggerReached();
    return attempt(context, entry, body, question);
  });
  return { ...answer, entry };
}

/** One request for a summary, its answer kept; a gateway that is away is waited for here, too. */
function askSummary(context: RunContext, turn: Turn): AskSummary {
  return async (entry, messages, summary) => {
    const question = { summary, onDelta: () => {}, logged: { sha256: '' } };
    const { answer } = await turn.pool.throughGateway(entry, () =>
      attempt(context, entry, buildBody(entry, messages), question),
    );
    const { finish, usage, calls } = answer;
    const text = keptSummary(answer.text);
    await record(context, 'summary', { model: entry.id, text, finish, calls: calls.length, usage });
    return answer;
  };
}

/**
 * Asks for the next answer and writes it to the log. Compacts before a request at the trigger of the model that gets
 * it, and after an overflow, then to the same model again; two compactions that do not help end the run with that
 * overflow.
 */
export async function askTurn(context: RunContext): Promise<void> {
  context.totals.turns += 1;
  const turn = beginTurn(context);
  const ask = askSummary(context, turn);
  for (let overflows = 0; ; ) {
    try {
      const { answer, body, entry } = await askModels(context, turn);
      const { text, reasoning, reasoningField, calls, finish, usage } = answer;
      const sizes = {
        requestLength: body.length,
        requestGuess: body.guess,
        requestImages: body.images,
      };
      const data = { model: entry.id, text, reasoning, reasoningField, calls, finish, usage, ...sizes };
      await record(context, 'assistant', data);
      return;
    } catch (error) {
      const { entry } = error as { entry?: ModelEntry };
      if (!(error instanceof ModelError) || error.kind !== 'overflow' || entry === undefined) throw error;
      turn.fitted.add(entry);
      if (error instanceof TriggerReached) {
        await compactConversation(context, entry, { targetTokens: targetTokens(entry) }, ask);
        continue;
      }
      overflows += 1;
      if (overflows > COMPACTIONS_PER_TURN) throw error;
      const tokens = viewTokens(context.conversation, context.conversation.view, entry);
      const need = { targetTokens: Math.min(targetTokens(entry), Math.floor(tokens / 2)), refused: true };
      if (!(await compactConversation(context, entry, need, ask))) throw error;
      await sayFallback(context, entry, entry, error);
    }
  }
}
