// Answers what is not even an HTTP request: parser errors, oversized headers, requests that never finish arriving.
import type { IncomingMessage, Server, ServerResponse } from 'node:http';
import type { Socket } from 'node:net';
import { Problem, type ProblemCode } from '../errors.ts';
import { PROBLEM_TYPE, problemDocument } from './problem.ts';

const REASONS: Record<string, [ProblemCode, string] | undefined> = {
  HPE_HEADER_OVERFLOW: ['DJ_HEADERS_TOO_LARGE', 'Send fewer or shorter headers.'],
  ERR_HTTP_REQUEST_TIMEOUT: ['DJ_REQUEST_TIMEOUT', 'Send the request faster.'],
};
const PHRASES: Record<number, string> = {
  400: 'Bad Request',
  408: 'Request Timeout',
  431: 'Request Header Fields Too Large',
};

/** Fastify's clientErrorHandler: writes the problem by hand, unless an answer is already on this connection. */
export function handleClientError(error: Error & { code?: string }, socket: Socket): void {
  if (error.code === 'ECONNRESET' || !socket.writable || answering(socket)) {
    socket.destroy();
    return;
  }
  const [code, detail] = REASONS[error.code ?? ''] ?? [
    'DJ_REQUEST_MALFORMED',
    'Send a well-formed HTTP/1.1 request.',
  ];
  const problem = new Problem(code, detail);
  const body = JSON.stringify(problemDocument(problem, 'none'));
  socket.end(
    `HTTP/1.1 ${problem.status} ${PHRASES[problem.status] ?? 'Bad Request'}\r\n` +
      `Content-Type: ${PROBLEM_TYPE}\r\nContent-Length: ${Buffer.byteLength(body)}\r\nConnection: close\r\n\r\n${body}`,
    () => socket.destroy(),
  );
}

/** A second answer in the middle of the first would corrupt it. */
function answering(socket: Socket & { _httpMessage?: ServerResponse | null }): boolean {
  return socket._httpMessage?.headersSent === true;
}

/** Only `100-continue` can be expected; Node would answer anything else with an empty 417. */
export function refuseExpectations(server: Server): void {
  server.on('checkExpectation', (_request: IncomingMessage, response: ServerResponse) => {
    const problem = new Problem('DJ_EXPECTATION_FAILED', 'Only "Expect: 100-continue" is understood.');
    response.writeHead(problem.status, { 'content-type': PROBLEM_TYPE, connection: 'close' });
    response.end(JSON.stringify(problemDocument(problem, 'none')));
  });
}
