// Request headers that carry meaning for jobs, each read strictly.
import type { FastifyRequest } from 'fastify';
import { Problem } from '../errors.ts';

/** True for `Prefer: respond-async`, among other preferences or alone (RFC 7240). */
export function prefersAsync(request: FastifyRequest): boolean {
  const header = request.headers.prefer;
  const values = header === undefined ? [] : Array.isArray(header) ? header : [header];
  return values
    .flatMap((value) => value.split(','))
    .some((preference) => preference.split(';')[0]?.trim().toLowerCase() === 'respond-async');
}

/** The `Idempotency-Key`, if any. Throws DJ_HEADER_INVALID unless it is 1 to 255 visible ASCII characters. */
export function idempotencyKey(request: FastifyRequest): string | undefined {
  const header = request.headers['idempotency-key'];
  if (header === undefined) return undefined;
  if (typeof header !== 'string' || !/^[\x21-\x7e]{1,255}$/.test(header)) {
    throw new Problem(
      'DJ_HEADER_INVALID',
      'Idempotency-Key must be 1 to 255 visible ASCII characters, given once.',
    );
  }
  return header;
}

/** True when the client asks for server-sent events. */
export function acceptsSse(request: FastifyRequest): boolean {
  return /(^|[\s,])text\/event-stream($|[\s,;])/i.test(request.headers.accept ?? '');
}

/** The `Last-Event-ID` of a reconnecting event source; an empty one counts as none. */
export function lastEventId(request: FastifyRequest): string | undefined {
  const header = request.headers['last-event-id'];
  return typeof header === 'string' && header !== '' ? header : undefined;
}

/** W3C trace context, when well-formed: its trace id. */
export function traceId(request: FastifyRequest): string | undefined {
  const header = request.headers.traceparent;
  if (typeof header !== 'string') return undefined;
  const id = /^(?!ff)[0-9a-f]{2}-([0-9a-f]{32})-(?!0{16})[0-9a-f]{16}-[0-9a-f]{2}(-.*)?$/.exec(header)?.[1];
  return id === undefined || /^0+$/.test(id) ? undefined : id;
}
