// Reads the body of an answer, whatever it turns out to be: a stream of events, one JSON object, an error or a page.
// The first bytes decide, since servers and what stands before them do not always send the type that they announce.
import type { IncomingMessage } from 'node:http';
import { excerptBytes } from '../text.ts';
import type { Assembler } from './answer.ts';
import type { CompletionRequest } from './completion.ts';
import { classifyResponse, ModelError, parseRetryAfter } from './errors.ts';
import { mergeDeltas } from './merge-deltas.ts';
import { createSseParser } from './sse.ts';
import type { Watch } from './watch.ts';

/** Bytes of an error answer that are read before it is classified. */
const ERROR_BODY_BYTES = 64 * 1024;
/** How long an error answer may dribble, usage may follow the finish, and the end of the body `[DONE]`. */
const ERROR_BODY_MS = 1000;
const AFTER_FINISH_MS = 2000;
const AFTER_DONE_MS = 100;
const MAX_JSON_BYTES = 32 * 1024 * 1024;
/** Bytes of a body that is no answer that reach the log. */
const SHOWN_BODY_BYTES = 240;

/** Where the body goes, and what watches over it. */
export interface Reading {
  response: IncomingMessage;
  assembler: Assembler;
  request: CompletionRequest;
  watch: Watch;
  /** Takes the keys out of a text before it is cut for a message. */
  clean(text: string): string;
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

function notAnAnswer({ response, clean }: Reading, body: string): ModelError {
  const { statusCode = 0, headers } = response;
  const shown = excerptBytes(clean(body), SHOWN_BODY_BYTES);
  const message = `not an answer: ${statusCode} ${headers['content-type'] ?? ''} ${shown}`;
  return new ModelError('not_api', message, { status: statusCode, answered: true });
}

type Form = 'events' | 'json' | 'page';

/** What a body is by its first bytes; they may be few, then its type decides. */
function formOf(first: Buffer, type: string): Form {
  const text = first.toString('utf8', 0, 64).trimStart();
  if (/^(data|event|id|retry)?:/.test(text)) return 'events';
  if (text.startsWith('{') || text.startsWith('[')) return 'json';
  if (text.startsWith('<') || type.startsWith('text/html')) return 'page';
  return type.startsWith('application/json') ? 'json' : 'events';
}

function isJson(text: string): boolean {
  try {
    JSON.parse(text);
    return true;
  } catch {
    return false;
  }
}

/** Collects a JSON answer; it is complete as soon as it parses, also when the connection stays open. */
function createJsonTaker(reading: Reading) {
  const { response, assembler, request, watch } = reading;
  const parts: Buffer[] = [];
  let total = 0;
  const whole = (): string => Buffer.concat(parts).toString('utf8');
  return {
    /** True when the body is complete. */
    take(bytes: Buffer): boolean {
      parts.push(bytes);
      total += bytes.length;
      watch.touch(request.idleTimeoutMs);
      if (total >= MAX_JSON_BYTES) return true;
      const mayEnd =
        response.headers['content-length'] === undefined && /[}\]]\s*$/.test(bytes.toString('latin1'));
      return mayEnd && isJson(whole());
    },
    end(): void {
      const body = whole();
      if (!isJson(body)) throw notAnAnswer(reading, body);
      for (const delta of assembler.accept(body)) request.onDelta(delta);
      if (!assembler.finished()) throw notAnAnswer(reading, body);
    },
  };
}

/** Takes the events of a stream; the reader's pace is the stream's. */
function createEventTaker({ assembler, request, watch }: Reading) {
  const parser = createSseParser();
  const deltas = mergeDeltas(request.onDelta);
  const begunS = process.uptime();
  return {
    async take(bytes: Buffer): Promise<boolean> {
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
      return false;
    },
    end(): void {
      const last = parser.finish();
      if (last === null || assembler.finished()) return;
      for (const delta of assembler.accept(last)) request.onDelta(delta);
    },
  };
}

/** Hands the body to the assembler. Throws a ModelError when it is no answer; the socket's errors pass through. */
export async function readAnswer(reading: Reading): Promise<void> {
  const { response, clean } = reading;
  const status = response.statusCode ?? 0;
  const type = (response.headers['content-type'] ?? '').toLowerCase();
  if (status < 200 || status > 299) {
    const body = clean(await readErrorBody(response));
    throw classifyResponse(status, body, parseRetryAfter(response.headers, Date.now()));
  }
  if (status === 204) throw notAnAnswer(reading, '');
  // A page is read like an error: for a moment.
  if (type.startsWith('text/html')) throw notAnAnswer(reading, await readErrorBody(response));
  let taker: ReturnType<typeof createEventTaker | typeof createJsonTaker> | undefined;
  for await (const bytes of response as AsyncIterable<Buffer>) {
    if (taker === undefined) {
      const form = formOf(bytes, type);
      if (form === 'page') throw notAnAnswer(reading, bytes.toString('utf8'));
      taker = form === 'json' ? createJsonTaker(reading) : createEventTaker(reading);
    }
    if (await taker.take(bytes)) break;
  }
  taker?.end();
  if (taker === undefined && type.startsWith('application/json')) throw notAnAnswer(reading, '');
}
