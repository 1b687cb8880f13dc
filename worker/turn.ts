// One turn: a request that the pool carries to some model, compacted before or after when it is too long, and its
// answer in the log. Runs no tools.
import { createHash } from 'node:crypto';
import { type AskSummary, compactConversation } from './compaction/compact.ts';
import { estimateTokens, targetTokens, triggerTokens } from './compaction/estimate.ts';
import { buildBody, type ChatMessage, type RequestBody, renderMessages } from './messages.ts';
import type { Answer, Delta } from './models/answer.ts';
import { requestCompletion } from './models/completion.ts';
import { ModelError } from './models/errors.ts';
import { askPool, orderModels } from './models/pool.ts';
import type { ModelEntry } from './protocol.ts';
import { addUsage, type RunContext, record, sleep } from './run-context.ts';

const COMPACTIONS_PER_TURN = 2;
/** An answer cut this close to the window was cut by the window, whatever it says. */
const WINDOW_SHARE = 0.99;

interface Attempt {
  answer: Answer;
  body: RequestBody;
}

/** Logs the request, sends it once, counts its usage. A request repeated byte for byte is logged once. */
async function attempt(
  context: RunContext,
  entry: ModelEntry,
  messages: ChatMessage[],
  purpose: 'turn' | 'summary',
  onDelta: (delta: Delta) => void,
  sent: { sha256: string },
): Promise<Attempt> {
  context.spending.takeRequest();
  const tools = purpose === 'turn' ? context.conversation.context : null;
  const body = buildBody(entry, messages, tools);
  const sha256 = createHash('sha256').update(body.text).digest('hex');
  if (sha256 !== sent.sha256) {
    const turn = context.totals.turns;
    const limit = entry.outputLimit === undefined ? {} : { maxTokens: entry.outputLimit };
    const data = { turn, model: entry.id, sha256, bytes: Buffer.byteLength(body.text), purpose, ...limit };
    await record(context, 'request', data, { durable: true });
    sent.sha256 = sha256;
  }
  const request = {
    entry,
    body: body.text,
    idleTimeoutMs: context.idleTimeoutMs,
    connections: context.connections,
    signal: context.signal,
    callIdPrefix: `call_${context.conversation.requests}`,
    onDelta,
    drained: context.drained,
  };
  const inputTokens = estimateTokens(context.conversation, body);
  const answer = await context.spending.account(requestCompletion(request), inputTokens);
  addUsage(context.totals.usage, answer.usage);
  return { answer, body };
}

/** Providers that cut silently: a prompt larger than the window, or an answer that ended where the window ends. */
function refuseSilentOverflow(entry: ModelEntry, { usage, finish }: Answer): void {
  if (usage === null || entry.inputLimit === undefined) return;
  const cut = finish === 'length' && usage.totalTokens >= entry.inputLimit * WINDOW_SHARE;
  if (usage.inputTokens > entry.inputLimit || cut) {
    throw new ModelError('overflow', `${usage.totalTokens} tokens do not fit the window`, { answered: true });
  }
}

async function askModels(
  context: RunContext,
  first: ModelEntry | null,
): Promise<Attempt & { entry: ModelEntry }> {
  const messages = renderMessages(context.conversation);
  const others = context.models.filter((entry) => entry !== first);
  const onDelta = ({ text, reasoning }: Delta): void =>
    context.emit(reasoning ? { type: 'token', text, reasoning } : { type: 'token', text });
  const sent = { sha256: '' };
  const { answer, entry } = await askPool({
    models: first === null ? context.models : [first, ...others],
    cooling: context.cooling,
    now: Date.now,
    sleep: (ms) => sleep(ms, context.signal),
    async attempt(entry) {
      const result = await attempt(context, entry, messages, 'turn', onDelta, sent);
      refuseSilentOverflow(entry, result.answer);
      return result;
    },
    async onFallback(from, to, failure) {
      const data = { from: from.id, to: to.id, reason: failure.kind };
      context.log('warn', 'model request failed', { ...data, message: failure.message });
      await record(context, 'fallback', { ...data, message: failure.message });
      context.emit({ type: 'fallback', ...data, discard: true });
    },
  });
  return { ...answer, entry };
}

/**
 * Asks for the next answer and writes it to the log. Compacts before the request at the trigger, and after an
 * overflow, then to the same model again; two compactions that do not help end the run with that overflow.
 */
export async function askTurn(context: RunContext): Promise<void> {
  const { conversation } = context;
  context.totals.turns += 1;
  const ask: AskSummary = async (entry, messages) =>
    (await attempt(context, entry, messages, 'summary', () => {}, { sha256: '' })).answer;
  const current = orderModels(context.models, context.cooling, Date.now())[0] as ModelEntry;
  const tokensFor = (entry: ModelEntry): number =>
    estimateTokens(conversation, buildBody(entry, renderMessages(conversation), conversation.context));
  if (tokensFor(current) > triggerTokens(current)) {
    await compactConversation(context, current, targetTokens(current), ask);
  }
  let first: ModelEntry | null = null;
  for (let compactions = 0; ; compactions += 1) {
    try {
      const { answer, body, entry } = await askModels(context, first);
      const { text, reasoning, reasoningField, calls, finish, usage } = answer;
      const sizes = { requestLength: body.length, requestImages: body.images };
      const data = { model: entry.id, text, reasoning, reasoningField, calls, finish, usage, ...sizes };
      await record(context, 'assistant', data);
      return;
    } catch (error) {
      const entry = (error as { entry?: ModelEntry }).entry;
      if (!(error instanceof ModelError) || error.kind !== 'overflow' || entry === undefined) throw error;
      if (compactions === COMPACTIONS_PER_TURN) throw error;
      const target = Math.min(targetTokens(entry), Math.floor(tokensFor(entry) / 2));
      if (!(await compactConversation(context, entry, target, ask))) throw error;
      await record(context, 'fallback', {
        from: entry.id,
        to: entry.id,
        reason: 'overflow',
        message: error.message,
      });
      context.emit({ type: 'fallback', from: entry.id, to: entry.id, reason: 'overflow', discard: true });
      first = entry;
    }
  }
}
