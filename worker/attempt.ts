// One attempt at one model: the request is checked against the log, logged, sent, and its failure logged too.
import type { SummarySpan } from './compaction/compact.ts';
import { estimateTokens } from './compaction/estimate.ts';
import { RunError } from './failure.ts';
import { type BodyDigest, digestText } from './ledger.ts';
import { RENDERING, type RequestBody } from './messages.ts';
import type { Answer, Delta } from './models/answer.ts';
import { ModelError } from './models/errors.ts';
import type { ModelEntry } from './protocol.ts';
import { addUsage, type RunContext, record } from './run-context.ts';
import type { RecordData } from './session/record.ts';

export interface Attempt {
  answer: Answer;
  body: RequestBody;
}

/** What a request is for. */
export interface Question {
  /** Of a summary request. */
  summary?: SummarySpan;
  onDelta(delta: Delta): void;
  /** The request last logged for it: one that is repeated byte for byte is logged once. */
  logged: { sha256: string };
}

/**
 * Logs a request, unless the log would not give these bytes: then nothing is sent and the run ends. Compared are the
 * digest of the bytes to be sent and one that is made from the records as they were read back from their lines.
 */
async function logRequest(
  context: RunContext,
  entry: ModelEntry,
  question: Question,
  { sha256, bytes }: BodyDigest,
): Promise<void> {
  const { summary } = question;
  const data: RecordData['request'] = {
    turn: context.totals.turns,
    model: entry.id,
    sha256,
    bytes,
    purpose: summary === undefined ? 'turn' : 'summary',
    rendering: RENDERING,
    ...(entry.outputLimit === undefined ? {} : { maxTokens: entry.outputLimit }),
    ...(summary === undefined ? {} : { summary }),
  };
  if (context.ledger.derive(data)?.sha256 !== sha256) {
    throw new RunError('request_not_in_log', 'the request differs from what the session log says');
  }
  context.source.check?.(data);
  await record(context, 'request', data, { durable: true });
  question.logged.sha256 = sha256;
}

/** Keeps a failure for those who run the session again. A gateway that is away repeats without end: left out. */
async function logFailure(context: RunContext, entry: ModelEntry, failure: ModelError): Promise<void> {
  const { kind, message, status, retryAfterMs, answered, usage } = failure;
  if (kind === 'cancelled' || (kind === 'gateway' && !answered)) return;
  await record(context, 'failure', {
    model: entry.id,
    kind,
    message,
    answered,
    ...(status === undefined ? {} : { status }),
    ...(retryAfterMs === undefined ? {} : { retryAfterMs }),
    ...(usage === null ? {} : { usage }),
  });
}

/**
 * Logs the request, sends it once, counts its usage and logs its failure. A request repeated byte for byte is logged
 * once.
 */
export async function attempt(
  context: RunContext,
  entry: ModelEntry,
  body: RequestBody,
  question: Question,
): Promise<Attempt> {
  context.spending.takeRequest();
  const digest = digestText(body.text);
  if (digest.sha256 !== question.logged.sha256) await logRequest(context, entry, question, digest);
  const request = {
    entry,
    body: body.text,
    idleTimeoutMs: context.idleTimeoutMs,
    queueTimeoutMs: context.queueTimeoutMs,
    connections: context.connections,
    signal: context.signal,
    callIdPrefix: `call_${context.conversation.requests}`,
    onDelta: question.onDelta,
    drained: context.drained,
  };
  const inputTokens = estimateTokens(context.conversation, entry, body);
  try {
    const answer = await context.spending.account(context.source.complete(request), inputTokens);
    addUsage(context.totals.usage, answer.usage);
    return { answer, body };
  } catch (error) {
    if (error instanceof ModelError) {
      addUsage(context.totals.usage, error.usage);
      await logFailure(context, entry, error);
    }
    throw error;
  }
}
