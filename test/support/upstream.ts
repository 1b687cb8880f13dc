// A model provider for tests: real HTTP over TCP or a unix socket, scripted answers, every request kept.
import { createServer, type IncomingMessage, type RequestListener, type ServerResponse } from 'node:http';
import { createServer as createSecureServer } from 'node:https';
import type { AddressInfo } from 'node:net';
import type { TestContext } from 'node:test';

export interface SeenRequest {
  method: string;
  url: string;
  headers: IncomingMessage['headers'];
  body: string;
}

export interface TestUpstream {
  baseUrl: string;
  seen: SeenRequest[];
  /** Open requests. */
  open(): number;
  stop(): Promise<void>;
}

export type Script = (response: ServerResponse, seen: SeenRequest) => void | Promise<void>;

export async function startUpstream(
  t: TestContext,
  script: Script,
  options: { socketPath?: string; tls?: { key: string; cert: string } } = {},
): Promise<TestUpstream> {
  const seen: SeenRequest[] = [];
  let open = 0;
  const listener: RequestListener = (request, response) => {
    const chunks: Buffer[] = [];
    open += 1;
    response.once('close', () => {
      open -= 1;
    });
    request.on('data', (chunk: Buffer) => chunks.push(chunk));
    request.on('end', () => {
      const { method = '', url = '', headers } = request;
      const entry = { method, url, headers, body: Buffer.concat(chunks).toString() };
      seen.push(entry);
      void script(response, entry);
    });
  };
  const server =
    options.tls === undefined ? createServer(listener) : createSecureServer(options.tls, listener);
  await new Promise<void>((resolve) =>
    server.listen(options.socketPath ?? { port: 0, host: '127.0.0.1' }, resolve),
  );
  const stop = () =>
    new Promise<void>((resolve) => {
      server.close(() => resolve());
      server.closeAllConnections();
    });
  t.after(stop);
  const scheme = options.tls === undefined ? 'http' : 'https';
  const baseUrl =
    options.socketPath === undefined
      ? `${scheme}://127.0.0.1:${(server.address() as AddressInfo).port}/v1`
      : `unix:${options.socketPath}:/v1`;
  return { baseUrl, seen, open: () => open, stop };
}

export const textChunk = (content: string) =>
  `data: ${JSON.stringify({ id: 'c', choices: [{ index: 0, delta: { content }, finish_reason: null }], usage: null })}\n\n`;

export const usageChunk = (prompt: number, completion: number) =>
  `data: ${JSON.stringify({ id: 'c', choices: [], usage: { prompt_tokens: prompt, completion_tokens: completion, total_tokens: prompt + completion } })}\n\n`;

export const DONE = 'data: [DONE]\n\n';

/** Answers with these pieces of a stream. */
export const streamed =
  (...pieces: string[]): Script =>
  (response) => {
    response.writeHead(200, { 'content-type': 'text/event-stream' });
    for (const piece of pieces) response.write(piece);
    response.end();
  };
