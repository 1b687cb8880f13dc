// One attempt at one model: sends the body, reads the answer, watches for stalls. Never retries.
import type { IncomingMessage } from 'node:http';
import type { ModelEntry } from '../protocol.ts';
import { excerpt, redact } from '../text.ts';
import { type Answer, type Assembler, createAssembler, type Delta } from './answer.ts';
import { parseBaseUrl } from './base-url.ts';
import { classifyResponse, ModelError, parseRetryAfter } from './errors.ts';
import { type Connections, type Posted, postJson } from './request.ts';
import { createSseParser } from './sse.ts';

/** Bytes of an error answer that are read before it is classified. */
const ERROR_BODY_BYTES = 64 * 1024;
/** How long an error answer may dribble, usage may follow the finish, and the end of the body `[DONE]`. */
const ERROR_BODY_MS = 1000;
const AFTER_FINISH_MS = 2000;
const AFTER_DONE_MS = 100;
const MAX_JSON_BYTES = 32 * 1024 * 1024;

export interface CompletionRequest {
  entry: ModelEntry;
  body: string;
  /** Longest time without a data event (comments do not count), before and after the head. */
  idleTimeoutMs: number;
  connections: Connections;
  signal: AbortSignal;
  /** Ids for calls that came without one. */
  callIdPrefix: string;
  /** Called for each delta; `drained` is awaited after each read, so that a slow reader slows the model. */
  onDelta(delta: Delta): void;
  drained(): Promise<void>;
}

interface Watch {
  /** The first cause wins; a broken socket afterwards is its consequence. */
  failure: Error | null;
  /** Restarts the timer. */
  touch(timeoutMs: number): void;
  /** Stops watching; a connection whose answer was read to its end is kept for the next request. */
  close(keep: boolean): void;
}

function watchRequest(posted: Posted, request: CompletionRequest, finished: () => boolean): Watch {
  let timer: NodeJS.Timeout | undefined;
  const watch: Watch = {
    failure: null,
    touch(timeoutMs) {
      clearTimeout(timer);
      timer = setTimeout(() => {
        if (!finished()) watch.failure ??= new ModelError('stall', `no data for ${timeoutMs} ms`);
        posted.destroy();
      }, timeoutMs);
    },
    close(keep) {
      clearTimeout(timer);
      request.signal.removeEventListener('abort', abort);
      if (!keep) posted.destroy();
    },
  };
  const abort = (): void => {
    watch.failure ??= new ModelError('cancelled', 'cancelled');
    posted.destroy();
  };
  if (request.signal.aborted) abort();
  else request.signal.addEventListener('abort', abort);
  return watch;
}

/** A broken connection: the model's network, or the gateway being away. */
function socketFailure(error: unknown, entry: ModelEntry, answered: boolean): ModelError {
  if (error instanceof ModelError) return error;
  if (error instanceof RangeError) return new ModelError('malformed', error.message, { answered });
  const code = (error as NodeJS.ErrnoException).code ?? '';
  const message = (error as Error).message || code;
  return new ModelError(entry.gateway === true ? 'gateway' : 'network', message, { answered });
}

async function readText(response: IncomingMessage, limitBytes: number): Promise<string> {
  const parts: Buffer[] = [];
  let total = 0;
  for await (const part of response as AsyncIterable<Buffer>) {
    parts.push(part);
    total += part.length;
    if (total >= limitBytes) break;
  }
  return Buffer.concat(parts).toString('utf8');
}

/** Reads an error answer for at most a second: some servers send JSON and keep the socket open. */
async function readErrorBody(response: IncomingMessage): Promise<string> {
  const parts: Buffer[] = [];
  let total = 0;
  await new Promise<void>((resolve) => {
    const timer = setTimeout(resolve, ERROR_BODY_MS);
    const end = (): void => {
      clearTimeout(timer);
      resolve();
    };
    response.on('data', (part: Buffer) => {
      parts.push(part);
      total += part.length;
      if (total >= ERROR_BODY_BYTES) end();
    });
    response.on('end', end);
    response.on('error', end);
    response.on('close', end);
  });
  return Buffer.concat(parts).subarray(0, ERROR_BODY_BYTES).toString('utf8');
}

async function readStream(
  response: IncomingMessage,
  assembler: Assembler,
  request: CompletionRequest,
  watch: Watch,
): Promise<void> {
  const parser = createSseParser();
  for await (const bytes of response as AsyncIterable<Buffer>) {
    const events = parser.feed(bytes);
    if (events.length === 0) continue;
    for (const data of events) for (const delta of assembler.accept(data)) request.onDelta(delta);
    const done = assembler.done();
    watch.touch(done ? AFTER_DONE_MS : assembler.finished() ? AFTER_FINISH_MS : request.idleTimeoutMs);
    await request.drained();
  }
  const last = parser.finish();
  if (last !== null && !assembler.finished()) {
    for (const delta of assembler.accept(last)) request.onDelta(delta);
  }
}

async function readAnswer(
  response: IncomingMessage,
  assembler: Assembler,
  request: CompletionRequest,
  watch: Watch,
): Promise<void> {
  const status = response.statusCode ?? 0;
  const type = (response.headers['content-type'] ?? '').toLowerCase();
  if (status < 200 || status > 299) {
    const body = await readErrorBody(response);
    throw classifyResponse(status, body, parseRetryAfter(response.headers, Date.now()));
  }
  if (status === 204 || type.startsWith('text/html')) {
    const body = status === 204 ? '' : await readErrorBody(response);
    throw new ModelError('not_api', `not an answer: ${status} ${type} ${excerpt(body, 200)}`, {
      status,
      answered: true,
    });
  }
  if (!type.startsWith('application/json')) {
    await readStream(response, assembler, request, watch);
    return;
  }
  const body = await readText(response, MAX_JSON_BYTES);
  for (const delta of assembler.accept(body)) request.onDelta(delta);
  if (!assembler.finished()) {
    throw new ModelError('not_api', `not an answer: ${status} ${type} ${excerpt(body, 200)}`, {
      status,
      answered: true,
    });
  }
}

/** The message without any key that a server echoed. */
function withoutKeys(error: ModelError, entry: ModelEntry): ModelError {
  error.message = redact(error.message, [entry.apiKey]);
  return error;
}

/**
 * Sends the request and resolves with the complete answer; rejects with a ModelError. Deltas reach `onDelta` as
 * they come, so after a rejection the reader must drop what it got.
 */
export async function requestCompletion(request: CompletionRequest): Promise<Answer> {
  const { entry } = request;
  const assembler = createAssembler();
  const authorization = entry.apiKey === undefined ? {} : { authorization: `Bearer ${entry.apiKey}` };
  const posted = postJson(parseBaseUrl(entry.baseUrl), request.body, authorization, request.connections);
  const watch = watchRequest(posted, request, assembler.finished);
  let response: IncomingMessage | undefined;
  try {
    watch.touch(request.idleTimeoutMs);
    response = await posted.response;
    watch.touch(request.idleTimeoutMs);
    await readAnswer(response, assembler, request, watch);
  } catch (error) {
    // A complete answer whose connection broke afterwards is complete.
    const complete = watch.failure === null && !(error instanceof ModelError) && assembler.finished();
    if (!complete)
      throw withoutKeys(socketFailure(watch.failure ?? error, entry, response !== undefined), entry);
  } finally {
    watch.close(response?.readableEnded === true);
  }
  if (watch.failure !== null) throw watch.failure;
  const { answer, rest } = assembler.answer(request.callIdPrefix);
  for (const delta of rest) request.onDelta(delta);
  return answer;
}
