// A scripted server that speaks the chat completions API, for tests: records every request, refuses those that break
// the rules, and answers what its script says. Never used by a run.

import { isUtf8 } from 'node:buffer';
import {
  createServer,
  type IncomingHttpHeaders,
  type IncomingMessage,
  type Server,
  type ServerResponse,
} from 'node:http';
import * as https from 'node:https';
import type { AddressInfo, Socket } from 'node:net';
import { createFaults, type FaultKind, type FaultOptions, faultReply } from './faults.ts';
import { type Reply, sendReply } from './reply.ts';
import { findProblems } from './strict.ts';

export interface FakeRequest {
  /** Counts all requests from 0. */
  index: number;
  /** Counts from 0 the requests that the script answers: not those that broke a rule or met a fault. */
  step: number;
  method: string;
  path: string;
  headers: IncomingHttpHeaders;
  /** The body as sent. */
  text: string;
  /** The body parsed, or null. */
  // biome-ignore lint/suspicious/noExplicitAny: tests look into bodies of any form.
  body: any;
  /** Milliseconds since the epoch when the request had arrived. */
  arrivedMs: number;
  /** Rules that the request breaks; it was answered with 400 when there are any. */
  problems: string[];
  /** The fault that it met, in the seeded mode. */
  fault: FaultKind | null;
}

/** Gives the reply to a request; a list gives them in order, and its last one again and again. */
export type Script = ((request: FakeRequest) => Reply | Promise<Reply>) | readonly Reply[];

export interface FakeOptions {
  /** A unix socket instead of a TCP port of 127.0.0.1. */
  socketPath?: string;
  port?: number;
  /** PEM of a key and of a certificate for 127.0.0.1: the server then speaks https. */
  tls?: { key: string; cert: string };
  /** False: requests that break the rules are answered like others. */
  strict?: boolean;
  /** Faults drawn from a seed, in between the answers of the script. */
  faults?: FaultOptions;
}

export interface FakeOpenAI {
  /** For `DJINN_API_BASE`: `http://127.0.0.1:PORT/v1` or `unix:/path.sock:/v1`. */
  baseUrl: string;
  requests: FakeRequest[];
  /** Replaces the script for the requests to come. */
  setScript(script: Script): void;
  /** Ends all connections and the server. */
  stop(): Promise<void>;
}

async function readBody(request: IncomingMessage): Promise<Buffer> {
  const parts: Buffer[] = [];
  for await (const part of request as AsyncIterable<Buffer>) parts.push(part);
  return Buffer.concat(parts);
}

function parse(text: string): unknown {
  try {
    return JSON.parse(text);
  } catch {
    return null;
  }
}

async function answer(script: Script, request: FakeRequest): Promise<Reply> {
  if (typeof script === 'function') return script(request);
  return (
    script[Math.min(request.step, script.length - 1)] ?? {
      status: 500,
      json: { error: { message: 'no script' } },
    }
  );
}

function listen(server: Server, { socketPath, port = 0 }: FakeOptions): Promise<void> {
  return new Promise((resolve, reject) => {
    server.once('error', reject);
    if (socketPath === undefined) server.listen(port, '127.0.0.1', resolve);
    else server.listen(socketPath, resolve);
  });
}

/** Every rule that the body breaks. */
function judge(bytes: Buffer, body: unknown): string[] {
  return isUtf8(bytes) ? findProblems(body) : ['the body is not UTF-8'];
}

/**
 * Starts the server. Requests that break the rules of the API (see strict.ts) are answered with 400 before the
 * script is asked, unless `strict` is false; with `faults` some others meet a fault instead. A script that throws
 * answers 500.
 */
export async function startFakeOpenAI(script: Script, options: FakeOptions = {}): Promise<FakeOpenAI> {
  let current = script;
  let steps = 0;
  const requests: FakeRequest[] = [];
  const sockets = new Set<Socket>();
  const nextFault = options.faults === undefined ? (): null => null : createFaults(options.faults);
  const handle = async (incoming: IncomingMessage, response: ServerResponse): Promise<void> => {
    const { method = '', url = '', headers } = incoming;
    const bytes = await readBody(incoming);
    const text = bytes.toString('utf8');
    const body = parse(text) as FakeRequest['body'];
    const problems = options.strict === false ? [] : judge(bytes, body);
    const fault = problems.length > 0 ? null : nextFault();
    const request: FakeRequest = {
      index: requests.length,
      step: steps,
      method,
      path: url,
      headers,
      text,
      body,
      arrivedMs: Date.now(),
      problems,
      fault,
    };
    requests.push(request);
    const asked = {
      promptTokens: Math.ceil(text.length / 4),
      stream: body?.stream === true,
      usage: body?.stream_options?.include_usage === true,
    };
    if (problems.length > 0) return sendReply(response, refusal(problems), asked);
    if (fault !== null) return sendReply(response, faultReply(fault, request.index), asked);
    steps += 1;
    return sendReply(response, await answer(current, request), asked);
  };
  const listener = (incoming: IncomingMessage, response: ServerResponse): void => {
    response.on('error', () => {}); // The client may go away at any point; that is often the test.
    handle(incoming, response).catch((error: Error) => {
      if (response.headersSent) response.destroy();
      else response.writeHead(500, { 'content-type': 'text/plain' }).end(`script failed: ${error.message}`);
    });
  };
  const { tls } = options;
  const server = tls === undefined ? createServer(listener) : https.createServer(tls, listener);
  server.on('connection', (socket) => {
    sockets.add(socket);
    socket.on('error', () => {});
    socket.on('close', () => sockets.delete(socket));
  });
  await listen(server, options);
  return {
    baseUrl: addressOf(server, options),
    requests,
    setScript(next) {
      current = next;
    },
    stop: () =>
      new Promise((resolve) => {
        server.close(() => resolve());
        for (const socket of sockets) socket.destroy();
      }),
  };
}

const refusal = (problems: string[]): Reply => ({
  status: 400,
  json: { error: { message: `STRICT: ${problems.join('; ')}`, type: 'invalid_request_error' } },
});

function addressOf(server: Server, { socketPath, tls }: FakeOptions): string {
  if (socketPath !== undefined) return `unix:${socketPath}:/v1`;
  return `${tls === undefined ? 'http' : 'https'}://127.0.0.1:${(server.address() as AddressInfo).port}/v1`;
}
