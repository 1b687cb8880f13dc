// Passes an upstream's answer on: unbuffered, with back-pressure, only harmless headers, the key taken out of everything.
import type { IncomingMessage, ServerResponse } from 'node:http';
import { sendRefusal, upstreamFailed } from './refusal.ts';
import { createScrubber, scrubText } from './scrub.ts';
import type { GatewayResult, TokenCount } from './types.ts';
import { createJsonUsage, createStreamUsage } from './usage.ts';

export interface Forwarded {
  result: GatewayResult;
  /** The provider's figure; null when it gave none. */
  usage: TokenCount | null;
  /** False when the answer broke off. */
  complete: boolean;
}

const PASSED_HEADERS = ['content-type', 'retry-after', 'retry-after-ms', 'x-should-retry'];

/** Ends the response in every case: whole when the answer was whole, destroyed when it broke off. Never throws. */
export async function forwardAnswer(
  answer: IncomingMessage,
  response: ServerResponse,
  apiKey: string | null,
): Promise<Forwarded> {
  const status = answer.statusCode ?? 502;
  const encoding = answer.headers['content-encoding'] ?? 'identity';
  if ((status >= 300 && status < 400) || status < 200 || encoding !== 'identity') {
    answer.destroy();
    sendRefusal(response, upstreamFailed(encoding === 'identity' ? `status ${status}` : 'content-encoding'));
    return { result: status < 400 && status >= 300 ? '3xx' : '5xx', usage: null, complete: false };
  }
  const type = answer.headers['content-type'] ?? '';
  const usage = /json/i.test(type) ? createJsonUsage() : createStreamUsage();
  const scrubber = createScrubber(apiKey);
  response.writeHead(status, passedHeaders(answer, apiKey));
  response.flushHeaders();
  const complete = await pipe(answer, response, (chunk) => {
    usage.push(chunk);
    return scrubber.push(chunk);
  });
  if (complete) response.end(scrubber.flush());
  else response.destroy();
  return { result: `${Math.floor(status / 100)}xx` as GatewayResult, usage: usage.result(), complete };
}

function passedHeaders(answer: IncomingMessage, apiKey: string | null): Record<string, string> {
  const passed: Record<string, string> = { 'cache-control': 'no-store' };
  for (const name of PASSED_HEADERS) {
    const value = answer.headers[name];
    if (typeof value === 'string') passed[name] = scrubText(value, apiKey);
  }
  return passed;
}

/** True when the answer arrived whole and was handed on. Reads only while the client takes more. */
function pipe(
  answer: IncomingMessage,
  response: ServerResponse,
  pass: (chunk: Buffer) => Buffer,
): Promise<boolean> {
  return new Promise((resolve) => {
    const onDrain = () => answer.resume();
    const settle = () => {
      response.off('drain', onDrain);
      response.off('close', onGone);
      resolve(answer.complete && !response.destroyed);
    };
    const onGone = () => answer.destroy();
    response.on('drain', onDrain);
    response.once('close', onGone);
    answer.on('data', (chunk: Buffer) => {
      const bytes = pass(chunk);
      if (bytes.length > 0 && !response.write(bytes)) answer.pause();
    });
    answer.on('error', () => undefined);
    answer.once('close', settle);
    if (response.destroyed) answer.destroy();
  });
}
