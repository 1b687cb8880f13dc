// Reads the body of a request into memory, up to a cap.
import type { IncomingMessage } from 'node:http';

/** `too_large` stops reading; `gone`: the client went away before the end. Never throws. */
export type ReadBody = { kind: 'whole'; bytes: Buffer } | { kind: 'too_large' } | { kind: 'gone' };

export function readBody(request: IncomingMessage, mostBytes: number): Promise<ReadBody> {
  if (Number(request.headers['content-length'] ?? 0) > mostBytes)
    return Promise.resolve({ kind: 'too_large' });
  return new Promise((resolve) => {
    const chunks: Buffer[] = [];
    let size = 0;
    const settle = (result: ReadBody) => {
      request.off('data', onData);
      resolve(result);
    };
    const onData = (chunk: Buffer) => {
      size += chunk.length;
      if (size > mostBytes) settle({ kind: 'too_large' });
      else chunks.push(chunk);
    };
    request.on('data', onData);
    request.once('end', () => settle({ kind: 'whole', bytes: Buffer.concat(chunks) }));
    request.once('error', () => settle({ kind: 'gone' }));
    request.once('close', () => settle({ kind: 'gone' }));
  });
}
