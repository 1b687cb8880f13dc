// Faults of a server, drawn from a seed: the same seed gives the same faults for the same number of requests. Pure.
import { type Chunk, contentChunk, finishChunk } from './chunks.ts';
import { cut, httpError, type Reply } from './reply.ts';

/**
 * `rate_limit` 429 · `server_error` 500, 502 or 503 · `reset` before an answer · `cut` in mid-answer by a reset ·
 * `early_end` politely without a finish · `stall` in mid-answer · `empty` no text · `malformed` a damaged event.
 */
export const FAULT_KINDS = [
  'rate_limit',
  'server_error',
  'reset',
  'cut',
  'early_end',
  'stall',
  'empty',
  'malformed',
] as const;
export type FaultKind = (typeof FAULT_KINDS)[number];

export interface FaultOptions {
  /** Any whole number. */
  seed: number;
  /** Share of the requests that meet a fault, from 0 to 1. */
  rate?: number;
  /** Which faults there are; default all. A client without an idle limit waits for ever in a `stall`. */
  kinds?: readonly FaultKind[];
  /** Most faults in a row, so that a client that asks again gets through. */
  inARow?: number;
}

const MODULUS = 2 ** 31 - 1;
const MULTIPLIER = 48271;

/** Numbers from 0 to just below 1: the minimal standard generator of Park and Miller. */
function createRandom(seed: number): () => number {
  let state = (Math.abs(Math.trunc(seed)) % (MODULUS - 1)) + 1;
  const next = (): number => {
    state = (state * MULTIPLIER) % MODULUS;
    return (state - 1) / (MODULUS - 1);
  };
  // Neighbouring seeds begin with neighbouring numbers.
  for (let warm = 0; warm < 8; warm += 1) next();
  return next;
}

/** Says for each request in turn which fault it meets, or null. */
export function createFaults(options: FaultOptions): () => FaultKind | null {
  const { seed, rate = 0.3, kinds = FAULT_KINDS, inARow = 2 } = options;
  const random = createRandom(seed);
  let row = 0;
  return () => {
    // Both numbers are drawn every time, so that one option does not shift the other's draws.
    const [hit, which] = [random(), random()];
    row = hit < rate && row < inARow && kinds.length > 0 ? row + 1 : 0;
    return row === 0 ? null : (kinds[Math.floor(which * kinds.length)] as FaultKind);
  };
}

const half: Chunk[] = [contentChunk('this will '), contentChunk('be taken ba')];
const events = half.map((chunk) => `data: ${JSON.stringify(chunk)}\n\n`);

/** What the server answers for a fault; `index` is that of the request. */
export function faultReply(kind: FaultKind, index: number): Reply {
  switch (kind) {
    case 'rate_limit':
      return httpError(429, { code: 'rate_limit_exceeded' }, { 'retry-after-ms': '20' });
    case 'server_error':
      return httpError([500, 502, 503][index % 3] as number);
    case 'reset':
      return { fault: 'reset' };
    case 'cut':
      return cut(half);
    case 'early_end':
      return cut(half, 'end');
    case 'stall':
      return { raw: events, hold: true };
    case 'empty':
      return { sse: [finishChunk('stop')] };
    case 'malformed':
      return { raw: [...events, 'data: {"choices":[{"index":0,"delta":{"cont\n\n'] };
  }
}
