// One log line and one metric observation per request. Never logs headers, bodies or query strings.
import type { FastifyRequest } from 'fastify';
import type { HttpMetrics } from './deps.ts';
import type { App } from './fastify-types.ts';
import { traceId } from './headers.ts';

const METHODS = new Set(['GET', 'HEAD', 'POST', 'PUT', 'PATCH', 'DELETE', 'OPTIONS']);

/** Counts the requests that are being answered, and those answered as they finish or break off. */
export function observeRequests(app: App, metrics: HttpMetrics): { inFlight(): number } {
  let inFlight = 0;
  app.addHook('onRequest', async (request, reply) => {
    const startedAt = performance.now();
    inFlight += 1;
    void reply.headers({ 'x-request-id': request.id, 'x-content-type-options': 'nosniff' });
    reply.raw.once('close', () => {
      inFlight -= 1;
      const durationMs = performance.now() - startedAt;
      const complete = reply.raw.writableFinished;
      const labels = { method: methodOf(request), route: routeOf(request), status: reply.raw.statusCode };
      metrics.observeRequest(labels, durationMs);
      const trace = traceId(request);
      request.log.info(
        {
          ...labels,
          durationMs: Math.round(durationMs * 10) / 10,
          ...(labels.route === 'unmatched' ? { path: printablePath(request.url) } : {}),
          ...(request.caller === null ? {} : { keyId: request.caller.keyId }),
          ...(trace === undefined ? {} : { traceId: trace }),
          ...(complete ? {} : { cut: true }),
        },
        'request',
      );
    });
  });
  return { inFlight: () => inFlight };
}

function methodOf(request: FastifyRequest): string {
  return METHODS.has(request.method) ? request.method : 'OTHER';
}

function routeOf(request: FastifyRequest): string {
  return request.is404 ? 'unmatched' : (request.routeOptions.url ?? 'unmatched');
}

/** Everything that is not visible ASCII percent-encoded, so that a log viewer shows it and nothing obeys it. */
export function printablePath(url: string): string {
  const path = (url.split('?', 1)[0] ?? '').slice(0, 200);
  return path.replaceAll(
    /[^\x21-\x7e]/g,
    (character) => `%${character.charCodeAt(0).toString(16).padStart(2, '0')}`,
  );
}
