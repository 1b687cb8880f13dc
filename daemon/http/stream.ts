// Moves event lines from a source to one client: pulls only while the socket takes more, keeps quiet streams alive.
// Lines are never parsed or copied here; the format may wrap them.
import type { ServerResponse } from 'node:http';
import { startHeartbeat } from './heartbeat.ts';
import type { OpenStream } from './streams.ts';

export interface StreamFormat {
  contentType: string;
  heartbeat: Buffer;
  /** Makes the bytes to send of whole lines; absent: the lines themselves. */
  wrap?: (lines: Buffer) => Buffer;
}

export const NDJSON: StreamFormat = {
  contentType: 'application/x-ndjson',
  heartbeat: Buffer.from('{"type":"heartbeat"}\n'),
};

/** `complete`: the source ended; `cut`: client gone or daemon stopping; else the source's error. */
export type StreamEnd = { kind: 'complete' } | { kind: 'cut' } | { kind: 'failed'; error: unknown };

/** How an answered stream ended, `client_gone` set apart from being cut by a stop. */
export type OpenStreamResult = StreamEnd['kind'] | 'client_gone';

/**
 * Sends everything of `source`, then ends the response. A stream that is cut or fails is destroyed instead, so that
 * a client can tell it from a whole one. Never throws. Holds at most one buffer of the source beyond the socket's own.
 */
export async function pumpStream(
  response: ServerResponse,
  source: AsyncIterable<Buffer>,
  options: { stream: OpenStream; format: StreamFormat; heartbeatMs: number },
): Promise<StreamEnd> {
  const { stream, format, heartbeatMs } = options;
  const heartbeat = startHeartbeat(response, format.heartbeat, heartbeatMs);
  const lines = source[Symbol.asyncIterator]();
  try {
    for (;;) {
      const step = await untilAborted(lines.next(), stream.signal);
      if (step === null) return cut(response);
      if (step.done === true) break;
      if (step.value.length === 0) continue;
      heartbeat.wrote(step.value);
      const bytes = format.wrap === undefined ? step.value : format.wrap(step.value);
      if (!response.write(bytes) && !(await drained(response, stream.signal))) return cut(response);
    }
    if (stream.signal.aborted) return cut(response);
    response.end();
    return { kind: 'complete' };
  } catch (error) {
    response.destroy();
    return stream.signal.aborted ? { kind: 'cut' } : { kind: 'failed', error };
  } finally {
    heartbeat.stop();
    // A source that still waits ends by the signal; its own failure then concerns nobody.
    void Promise.resolve(lines.return?.()).catch(() => undefined);
  }
}

function cut(response: ServerResponse): StreamEnd {
  response.destroy();
  return { kind: 'cut' };
}

/** The promise's value, or null once the signal fires. Leaves no listener behind. */
function untilAborted<T>(promise: Promise<T>, signal: AbortSignal): Promise<T | null> {
  if (signal.aborted) return Promise.resolve(null);
  return new Promise((resolve, reject) => {
    const onAbort = () => resolve(null);
    signal.addEventListener('abort', onAbort, { once: true });
    promise.then(resolve, reject).finally(() => signal.removeEventListener('abort', onAbort));
  });
}

/** True once the response takes more, false when the signal fired first. */
function drained(response: ServerResponse, signal: AbortSignal): Promise<boolean> {
  if (signal.aborted) return Promise.resolve(false);
  return new Promise((resolve) => {
    const settle = (value: boolean) => {
      response.off('drain', onDrain);
      signal.removeEventListener('abort', onAbort);
      resolve(value);
    };
    const onDrain = () => settle(true);
    const onAbort = () => settle(false);
    response.once('drain', onDrain);
    signal.addEventListener('abort', onAbort, { once: true });
  });
}
