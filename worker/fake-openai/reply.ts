// What the fake server answers to one request, and how that is written: event by event or byte by byte.
import type { ServerResponse } from 'node:http';
import { setTimeout as sleep } from 'node:timers/promises';
import { type Chunk, completeChunks, wholeCompletion } from './chunks.ts';

/** One step of a byte script: bytes in one write, a pause, or the end of the connection. */
export type Step = string | Buffer | { pauseMs: number } | { cut: 'reset' | 'fin' };

export interface Reply {
  status?: number;
  headers?: Record<string, string>;
  /** Chunks (or texts sent as the data of an event as they are). A missing finish, usage and `[DONE]` are added. */
  sse?: readonly (Chunk | string)[];
  /** False: the chunks are sent as they are and nothing is added. */
  complete?: boolean;
  /** Pause before each event. */
  pauseMs?: number;
  /** Raw bytes of the body, each step in a write of its own. */
  raw?: readonly Step[];
  /** Raw bytes of the whole answer, head included. */
  wire?: readonly Step[];
  /** A body that is not a stream. */
  json?: unknown;
  body?: string;
  /** `reset` before anything is sent, or `stall`: nothing is sent, the connection stays open. */
  fault?: 'reset' | 'stall';
  /** True: the connection stays open after the last byte. */
  hold?: boolean;
}

/** An error answer in the form of the API. */
export function httpError(
  status: number,
  error: { message?: string; type?: string; code?: string } = {},
  headers: Record<string, string> = {},
): Reply {
  const { message = `fake error ${status}`, type = 'fake_error', code = null } = error;
  return { status, headers, json: { error: { message, type, param: null, code } } };
}

/** The connection is reset before an answer. */
export const reset = (): Reply => ({ fault: 'reset' });

/** The request is taken and never answered. */
export const stall = (): Reply => ({ fault: 'stall' });

/** The given chunks, then the connection breaks (`reset`) or the body ends politely (`end`) without a finish. */
export function cut(chunks: readonly Chunk[], how: 'reset' | 'fin' | 'end' = 'reset'): Reply {
  const events = chunks.map((chunk) => `data: ${JSON.stringify(chunk)}\n\n`);
  return { raw: how === 'end' ? events : [...events, { pauseMs: 20 }, { cut: how }] };
}

function write(response: ServerResponse, bytes: string | Buffer): Promise<void> {
  return new Promise((resolve) => {
    if (response.destroyed || response.socket === null) resolve();
    else {
      response.once('close', resolve);
      response.write(bytes, () => {
        response.removeListener('close', resolve);
        resolve();
      });
    }
  });
}

function cutConnection(response: ServerResponse, how: 'reset' | 'fin'): void {
  if (how === 'reset' && response.socket !== null && 'resetAndDestroy' in response.socket) {
    response.socket.resetAndDestroy();
  } else {
    response.socket?.destroy();
  }
}

async function writeSteps(response: ServerResponse, steps: readonly Step[]): Promise<boolean> {
  for (const step of steps) {
    // Nobody listens any more: the rest of a long script holds nothing up.
    if (response.destroyed) return false;
    if (typeof step === 'string' || Buffer.isBuffer(step)) await write(response, step);
    else if ('pauseMs' in step) await sleep(step.pauseMs);
    else {
      cutConnection(response, step.cut);
      return false;
    }
  }
  return true;
}

/** Bytes of the whole answer go straight to the socket. */
async function writeWire(response: ServerResponse, steps: readonly Step[], hold: boolean): Promise<void> {
  const { socket } = response;
  if (socket === null) return;
  for (const step of steps) {
    if (typeof step === 'string' || Buffer.isBuffer(step)) socket.write(step);
    else if ('pauseMs' in step) await sleep(step.pauseMs);
    else return cutConnection(response, step.cut);
  }
  if (!hold) socket.end();
}

/** What the request asked for, as far as it shapes an answer. */
export interface Asked {
  promptTokens: number;
  stream: boolean;
  /** The stream is to end in a chunk with usage. */
  usage: boolean;
}

function eventsOf(reply: Reply, asked: Asked): string[] {
  const items = reply.sse ?? [];
  const texts = items.filter((item) => typeof item === 'string');
  if (reply.complete === false || texts.length > 0) {
    return items.map((item) => `data: ${typeof item === 'string' ? item : JSON.stringify(item)}\n\n`);
  }
  const chunks = completeChunks(items as Chunk[], asked.usage ? asked.promptTokens : null);
  return [...chunks.map((chunk) => `data: ${JSON.stringify(chunk)}\n\n`), 'data: [DONE]\n\n'];
}

async function writeEvents(response: ServerResponse, reply: Reply, asked: Asked): Promise<boolean> {
  const events = eventsOf(reply, asked);
  const { pauseMs = 0 } = reply;
  if (pauseMs === 0) {
    await write(response, events.join(''));
    return true;
  }
  return writeSteps(
    response,
    events.flatMap((event) => [{ pauseMs }, event]),
  );
}

/** A scripted stream as one JSON answer, for a request that asked for no stream. */
function unstreamed(reply: Reply, { stream, promptTokens }: Asked): Reply {
  const { sse, ...rest } = reply;
  if (stream || sse === undefined || sse.some((item) => typeof item === 'string')) return reply;
  return { ...rest, json: wholeCompletion(sse as Chunk[], promptTokens) };
}

/** Writes the whole reply. */
export async function sendReply(response: ServerResponse, scripted: Reply, asked: Asked): Promise<void> {
  const reply = unstreamed(scripted, asked);
  response.socket?.setNoDelay(true);
  if (reply.fault === 'stall') return;
  if (reply.fault === 'reset') return cutConnection(response, 'reset');
  if (reply.wire !== undefined) return writeWire(response, reply.wire, reply.hold === true);
  const streams = reply.sse !== undefined || reply.raw !== undefined;
  const type = streams ? 'text/event-stream' : reply.json === undefined ? 'text/plain' : 'application/json';
  response.writeHead(reply.status ?? 200, { 'content-type': type, ...reply.headers });
  let open = true;
  if (reply.raw !== undefined) open = await writeSteps(response, reply.raw);
  else if (reply.sse !== undefined) open = await writeEvents(response, reply, asked);
  else await write(response, reply.body ?? (reply.json === undefined ? '' : JSON.stringify(reply.json)));
  if (open && reply.hold !== true) response.end();
}
