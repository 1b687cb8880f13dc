// One attempt at one model: sends the request, has its answer read and watched. Never retries.
import type { IncomingMessage } from 'node:http';
import type { ModelEntry } from '../protocol.ts';
import { excerpt, redact } from '../text.ts';
import { type Answer, type Assembler, createAssembler, type Delta } from './answer.ts';
import { readAnswer } from './answer-body.ts';
import { parseBaseUrl } from './base-url.ts';
import { ModelError } from './errors.ts';
import { type Connections, postJson } from './request.ts';
import { watchRequest } from './watch.ts';
import { refuseSilentOverflow } from './window.ts';

/** Units of a message that reach the log. */
const SHOWN_MESSAGE_LENGTH = 500;

export interface CompletionRequest {
  entry: ModelEntry;
  body: string;
  /** Longest time without a chunk (comments and the like do not count), before and after the head. */
  idleTimeoutMs: number;
  /** How long comments may keep a request warm that waits for its first chunk in the server's queue. */
  queueTimeoutMs: number;
  connections: Connections;
  signal: AbortSignal;
  /** Ids for calls that came without one. */
  callIdPrefix: string;
  /** Called for each delta; `drained` is awaited after each read, so that a slow reader slows the model. */
  onDelta(delta: Delta): void;
  drained(): Promise<void>;
}

/** A broken connection: the model's network, an answer that was cut, or the gateway being away. */
function socketFailure(error: unknown, entry: ModelEntry, answered: boolean): ModelError {
  if (error instanceof ModelError) return error;
  if (error instanceof RangeError) return new ModelError('malformed', error.message, { answered });
  const code = (error as NodeJS.ErrnoException).code ?? '';
  const message = (error as Error).message || code;
  if (entry.gateway === true) return new ModelError('gateway', message, { answered });
  if (answered) return new ModelError('early_end', `the stream ended early: ${message}`, { answered });
  return new ModelError('network', message);
}

const secretsOf = ({ apiKey, headers }: ModelEntry): (string | undefined)[] => [
  apiKey,
  ...Object.values(headers ?? {}),
];

/** The failure as it may be shown: without any key that a server echoed, bounded, with what it cost. */
function presentable(error: ModelError, entry: ModelEntry, assembler: Assembler): ModelError {
  error.message = excerpt(redact(error.message, secretsOf(entry)), SHOWN_MESSAGE_LENGTH);
  error.usage = assembler.usage();
  return error;
}

const headersOf = ({ apiKey, headers }: ModelEntry): Record<string, string> => ({
  ...(apiKey === undefined ? {} : { authorization: `Bearer ${apiKey}` }),
  ...headers,
});

/** Sends the request and reads the answer to its end; rejects with whatever happened. */
async function exchange(request: CompletionRequest, assembler: Assembler): Promise<void> {
  const { entry } = request;
  const posted = postJson(parseBaseUrl(entry.baseUrl), request.body, headersOf(entry), request.connections);
  const watch = watchRequest(posted, request.signal, assembler.finished);
  let response: IncomingMessage | undefined;
  try {
    watch.touch(request.idleTimeoutMs);
    response = await posted.response;
    watch.touch(request.idleTimeoutMs);
    const clean = (text: string): string => redact(text, secretsOf(entry));
    await readAnswer({ response, assembler, request, watch, clean });
  } catch (error) {
    // A complete answer whose connection broke afterwards is complete.
    const complete = watch.failure === null && !(error instanceof ModelError) && assembler.finished();
    if (!complete) throw socketFailure(watch.failure ?? error, entry, response !== undefined);
  } finally {
    watch.close(response?.readableEnded === true);
  }
  if (watch.failure !== null) throw watch.failure;
}

/**
 * Sends the request and resolves with the complete answer; rejects with a ModelError. Deltas reach `onDelta` as
 * they come, so after a rejection the reader must drop what it got.
 */
export async function requestCompletion(request: CompletionRequest): Promise<Answer> {
  const { entry } = request;
  const assembler = createAssembler();
  try {
    await exchange(request, assembler);
    if (assembler.finished()) refuseSilentOverflow(entry, assembler.usage(), assembler.finish());
    const { answer, rest } = assembler.answer(request.callIdPrefix);
    for (const delta of rest) request.onDelta(delta);
    return answer;
  } catch (error) {
    throw error instanceof ModelError ? presentable(error, entry, assembler) : error;
  }
}
