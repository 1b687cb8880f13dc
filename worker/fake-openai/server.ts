// A scripted server that speaks the chat completions API, for tests: records every request, refuses those that break
// the rules, and answers what its script says. Never used by a run.
import {
  createServer,
  type IncomingHttpHeaders,
  type IncomingMessage,
  type Server,
  type ServerResponse,
} from 'node:http';
import type { AddressInfo, Socket } from 'node:net';
import { type Reply, sendReply } from './reply.ts';
import { findProblems } from './strict.ts';

export interface FakeRequest {
  /** Counts from 0. */
  index: number;
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
}

/** Gives the reply to a request; a list gives them in order, and its last one again and again. */
export type Script = ((request: FakeRequest) => Reply | Promise<Reply>) | readonly Reply[];

export interface FakeOptions {
  /** A unix socket instead of a TCP port of 127.0.0.1. */
  socketPath?: string;
  port?: number;
  /** False: requests that break the rules are answered like others. */
  strict?: boolean;
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

async function readBody(request: IncomingMessage): Promise<string> {
  const parts: Buffer[] = [];
  for await (const part of request as AsyncIterable<Buffer>) parts.push(part);
  return Buffer.concat(parts).toString('utf8');
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
    script[Math.min(request.index, script.length - 1)] ?? {
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

/**
 * Starts the server. Requests that break the rules of the API (see strict.ts) are answered with 400 before the
 * script is asked, unless `strict` is false. A script that throws answers 500.
 */
export async function startFakeOpenAI(script: Script, options: FakeOptions = {}): Promise<FakeOpenAI> {
  let current = script;
  const requests: FakeRequest[] = [];
  const sockets = new Set<Socket>();
  const handle = async (incoming: IncomingMessage, response: ServerResponse): Promise<void> => {
    const { method = '', url = '', headers } = incoming;
    const text = await readBody(incoming);
    const body = parse(text);
    const problems = options.strict === false ? [] : findProblems(body);
    const request = {
      index: requests.length,
      method,
      path: url,
      headers,
      text,
      body,
      arrivedMs: Date.now(),
      problems,
    };
    requests.push(request);
    const refused = {
      status: 400,
      json: { error: { message: `STRICT: ${problems.join('; ')}`, type: 'invalid_request_error' } },
    };
    const reply = problems.length > 0 ? refused : await answer(current, request);
    await sendReply(response, reply, Math.ceil(text.length / 4));
  };
  const server = createServer((incoming, response) => {
    response.on('error', () => {}); // The client may go away at any point; that is often the test.
    handle(incoming, response).catch((error: Error) => {
      if (response.headersSent) response.destroy();
      else response.writeHead(500, { 'content-type': 'text/plain' }).end(`script failed: ${error.message}`);
    });
  });
  server.on('connection', (socket) => {
    sockets.add(socket);
    socket.on('error', () => {});
    socket.on('close', () => sockets.delete(socket));
  });
  await listen(server, options);
  const { socketPath } = options;
  return {
    baseUrl:
      socketPath === undefined
        ? `http://127.0.0.1:${(server.address() as AddressInfo).port}/v1`
        : `unix:${socketPath}:/v1`,
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
