// Answers a request with the event stream of one job, as NDJSON or server-sent events.
import type { FastifyReply, FastifyRequest } from 'fastify';
import type { HttpDeps } from './deps.ts';
import { SSE } from './sse.ts';
import { NDJSON, type OpenStreamResult, pumpStream } from './stream.ts';
import type { Streams } from './streams.ts';

export interface StreamContext {
  deps: HttpDeps;
  streams: Streams;
  heartbeatMs: number;
}

export interface StreamRequest {
  jobId: string;
  after?: string;
  follow: boolean;
  sse: boolean;
}

/**
 * Opens the job's events and sends them. Refusals are thrown before the first byte; afterwards the reply is out of
 * fastify's hands. Tells whether the client went away before the end.
 */
export async function answerStream(
  context: StreamContext,
  request: FastifyRequest,
  reply: FastifyReply,
  wanted: StreamRequest,
): Promise<OpenStreamResult> {
  const { deps, streams, heartbeatMs } = context;
  const { jobId, after, follow } = wanted;
  const stream = streams.open(reply.raw);
  try {
    const over = wanted.sse && after !== undefined && (await hasEnded(deps, request, jobId));
    const options = { ...(after === undefined ? {} : { after }), follow, signal: stream.signal };
    const source = await deps.jobs.events(request.caller, jobId, options);
    const lines = over ? await unlessEmpty(source) : source;
    if (lines === null) {
      // An event source that has read everything would reconnect for ever; 204 is how it is told to stop.
      await reply.code(204).send();
      return 'complete';
    }
    const format = wanted.sse ? SSE : NDJSON;
    reply.hijack();
    reply.raw.writeHead(200, {
      ...(reply.getHeaders() as Record<string, string>),
      'content-type': format.contentType,
      'cache-control': 'no-store',
      'x-accel-buffering': 'no',
    });
    reply.raw.flushHeaders();
    const end = await pumpStream(reply.raw, lines, { stream, format, heartbeatMs });
    if (end.kind === 'failed') request.log.error({ err: end.error, jobId }, 'stream failed');
    return end.kind === 'cut' && stream.reason === 'gone' ? 'client_gone' : end.kind;
  } finally {
    stream.close();
  }
}

async function hasEnded(deps: HttpDeps, request: FastifyRequest, jobId: string): Promise<boolean> {
  return (await deps.jobs.get(request.caller, jobId)).state === 'ended';
}

/** The same source, or null when it has nothing to give. */
async function unlessEmpty(source: AsyncIterable<Buffer>): Promise<AsyncIterable<Buffer> | null> {
  const lines = source[Symbol.asyncIterator]();
  const first = await lines.next();
  if (first.done === true) return null;
  return (async function* () {
    yield first.value;
    yield* { [Symbol.asyncIterator]: () => lines };
  })();
}
