// One attempt at one model: sends the body, reads the answer, watches for stalls. Never retries.
import type { IncomingMessage } from 'node:http';
import type { ModelEntry } from '../protocol.ts';
import { excerpt, excerptBytes, redact } from '../text.ts';
import { type Answer, type Assembler, createAssembler, type Delta } from './answer.ts';
import { parseBaseUrl } from './base-url.ts';
import { classifyResponse, ModelError, parseRetryAfter } from './errors.ts';
import { mergeDeltas } from './merge-deltas.ts';
import { type Connections, type Posted, postJson } from './request.ts';
import { createSseParser } from './sse.ts';
import { refuseSilentOverflow } from './window.ts';

/** Bytes of an error answer that are read before it is classified. */
const ERROR_BODY_BYTES = 64 * 1024;
/** How long an error answer may dribble, usage may follow the finish, and the end of the body `[DONE]`. */
const ERROR_BODY_MS = 1000;
const AFTER_FINISH_MS = 2000;
const AFTER_DONE_MS = 100;
const MAX_JSON_BYTES = 32 * 1024 * 1024;
/** Bytes of a body that is no answer, and units of any message, that reach the log. */
const SHOWN_BODY_BYTES = 240;
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

interface Watch {
  /** The first cause wins; a broken socket afterwards is its consequence. */
  failure: Error | null;
  /** Restarts the timer. */
  touch(timeoutMs: number): void;
  /** Stops the timer until the next `touch`: the reader is slow, not the model. */
  pause(): void;
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
    pause() {
      clearTimeout(timer);
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

/** The JSON body of an answer; complete as soon as it parses, also when the connection stays open. */
async function readJson(response: IncomingMessage, watch: Watch, idleTimeoutMs: number): Promise<string> {
  const parts: Buffer[] = [];
  let total = 0;
  for await (const part of response as AsyncIterable<Buffer>) {
    parts.push(part);
    total += part.length;
    watch.touch(idleTimeoutMs);
    if (total >= MAX_JSON_BYTES) break;
    if (response.headers['content-length'] !== undefined || !/\}\s*$/.test(part.toString('latin1'))) continue;
    const text = Buffer.concat(parts).toString('utf8');
    if (isJson(text)) return text;
  }
  return Buffer.concat(parts).toString('utf8');
}

function isJson(text: string): boolean {
  try {
    JSON.parse(text);
    return true;
  } catch {
    return false;
  }
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
  const deltas = mergeDeltas(request.onDelta);
  const begunS = process.uptime();
  for await (const bytes of response as AsyncIterable<Buffer>) {
    const events = parser.feed(bytes);
    const before = assembler.chunks();
    try {
      for (const data of events) for (const delta of assembler.accept(data)) deltas.take(delta);
    } finally {
      deltas.flush();
    }
    if (assembler.done()) watch.touch(AFTER_DONE_MS);
    else if (assembler.finished()) {
      if (events.length > 0) watch.touch(AFTER_FINISH_MS);
    } else if (assembler.chunks() > before) {
      watch.pause();
      await request.drained();
      watch.touch(request.idleTimeoutMs);
    } else if (before === 0) {
      const leftMs = request.queueTimeoutMs - (process.uptime() - begunS) * 1000;
      if (leftMs > 0) watch.touch(Math.min(request.idleTimeoutMs, leftMs));
    }
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
    const body = redact(await readErrorBody(response), secretsOf(request.entry));
    throw classifyResponse(status, body, parseRetryAfter(response.headers, Date.now()));
  }
  if (status === 204 || type.startsWith('text/html')) {
    throw notAnAnswer(response, status === 204 ? '' : await readErrorBody(response));
  }
  if (!type.startsWith('application/json')) {
    await readStream(response, assembler, request, watch);
    return;
  }
  const body = await readJson(response, watch, request.idleTimeoutMs);
  if (!isJson(body)) throw notAnAnswer(response, body);
  for (const delta of assembler.accept(body)) request.onDelta(delta);
  if (!assembler.finished()) throw notAnAnswer(response, body);
}

function notAnAnswer({ statusCode, headers }: IncomingMessage, body: string): ModelError {
  const shown = excerptBytes(body, SHOWN_BODY_BYTES);
  const message = `not an answer: ${statusCode} ${headers['content-type'] ?? ''} ${shown}`;
  return new ModelError('not_api', message, { status: statusCode ?? 0, answered: true });
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
