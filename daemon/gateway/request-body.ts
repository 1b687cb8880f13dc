// Reads the body of a request into memory: up to a cap of its own, and up to what one job and all together may hold.
import type { IncomingMessage } from 'node:http';

/** Bytes that may be held at a time. Tenant code decides how many bodies it sends at once; djinnd must outlive that. */
export interface Allowance {
  /** False when it would be too much; nothing is taken then. */
  take(bytes: number): boolean;
  giveBack(bytes: number): void;
}

export function createAllowance(mostBytes: number): Allowance {
  let heldBytes = 0;
  return {
    take(bytes) {
      if (heldBytes + bytes > mostBytes) return false;
      heldBytes += bytes;
      return true;
    },
    giveBack(bytes) {
      heldBytes -= bytes;
    },
  };
}

export interface BodyLimits {
  mostBytes: number;
  ofJob: Allowance;
  ofAll: Allowance;
}

/**
 * `release` is to be called once the bytes are no longer needed. `too_large`, `job_full` and `all_full` stop reading;
 * `gone`: the client went away before the end.
 */
export type ReadBody =
  | { kind: 'whole'; bytes: Buffer; release: () => void }
  | { kind: 'too_large' | 'job_full' | 'all_full' | 'gone' };

/** Never throws. */
export function readBody(request: IncomingMessage, limits: BodyLimits): Promise<ReadBody> {
  const { mostBytes, ofJob, ofAll } = limits;
  if (Number(request.headers['content-length'] ?? 0) > mostBytes)
    return Promise.resolve({ kind: 'too_large' });
  return new Promise((resolve) => {
    const chunks: Buffer[] = [];
    let size = 0;
    const release = () => {
      ofJob.giveBack(size);
      ofAll.giveBack(size);
      size = 0;
    };
    let settled = false;
    const settle = (result: ReadBody) => {
      if (settled) return;
      settled = true;
      request.off('data', onData);
      if (result.kind !== 'whole') release();
      resolve(result);
    };
    const onData = (chunk: Buffer) => {
      if (size + chunk.length > mostBytes) return settle({ kind: 'too_large' });
      if (!ofJob.take(chunk.length)) return settle({ kind: 'job_full' });
      if (!ofAll.take(chunk.length)) {
        ofJob.giveBack(chunk.length);
        return settle({ kind: 'all_full' });
      }
      size += chunk.length;
      chunks.push(chunk);
    };
    request.on('data', onData);
    request.once('end', () => settle({ kind: 'whole', bytes: Buffer.concat(chunks), release }));
    request.once('error', () => settle({ kind: 'gone' }));
    request.once('close', () => settle({ kind: 'gone' }));
  });
}
