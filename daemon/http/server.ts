// The HTTP server: puts hooks and routes together and knows how to stop. Listens where it is told, decides nothing.

import type { IncomingMessage } from 'node:http';
import fastify, { LogController } from 'fastify';
import { nanoid } from 'nanoid';
import { Problem } from '../errors.ts';
import { authenticate } from './auth.ts';
import { useJsonBodies } from './body.ts';
import { handleClientError, refuseExpectations } from './client-error.ts';
import type { Caller, HttpDeps } from './deps.ts';
import type { App } from './fastify-types.ts';
import { observeRequests } from './observe.ts';
import { documentRoutes, openapiRoute } from './openapi.ts';
import { handleError } from './problem.ts';
import { parseQuery } from './query.ts';
import { eventRoutes } from './routes/events.ts';
import { healthRoutes } from './routes/health.ts';
import { jobRoutes } from './routes/jobs.ts';
import { keyRoutes, tenantRoutes } from './routes/tenants.ts';
import { stopServer } from './stop.ts';
import { Streams } from './streams.ts';
import { answerUnmatched } from './unmatched.ts';

const BODY_LIMIT_BYTES = 16 * 1024 * 1024;
const HEARTBEAT_MS = 15_000;
const REQUEST_TIMEOUT_MS = 300_000;

export interface HttpServer {
  app: App;
  /** Resolves to the address, such as `http://127.0.0.1:8420`. Rejects when the port is taken. */
  listen(address: { host: string; port: number }): Promise<string>;
  /**
   * From now on new jobs are refused with DJ_STOPPING, streams are cut without an `end` line, what is being answered
   * gets its answer within the grace, and then every connection is closed. Jobs are not touched. Idempotent.
   */
  stop(graceMs: number): Promise<void>;
}

/** Builds the server without listening. Add nothing to it afterwards. */
export async function buildHttp(deps: HttpDeps): Promise<HttpServer> {
  const app = createApp(deps);
  let stopped: Promise<void> | null = null;
  const isStopping = () => stopped !== null;
  const streams = new Streams((open) => (open ? deps.metrics.streamOpened() : deps.metrics.streamClosed()));

  app.decorateRequest('caller', null as unknown as Caller);
  app.setErrorHandler(handleError);
  app.setSerializerCompiler(() => (data) => JSON.stringify(data));
  useJsonBodies(app);
  refuseUnguardedRoutes(app);
  answerUnmatched(app);
  const requests = observeRequests(app, deps.metrics);
  app.addHook('onRequest', async (request) => {
    if (isStopping() && request.routeOptions.config.startsWork === true) {
      throw new Problem('DJ_STOPPING', 'Send the request again in a moment; running jobs go on.', {
        headers: { 'retry-after': '2' },
      });
    }
    await authenticate(request, deps.keys);
  });
  app.addHook('onSend', async (_request, reply) => {
    if (isStopping()) void reply.header('connection', 'close');
  });
  app.addHook('preValidation', async (request) => parseQuery(request));

  await documentRoutes(app, deps.version);
  const context = { deps, streams, heartbeatMs: deps.heartbeatMs ?? HEARTBEAT_MS };
  jobRoutes(app, context);
  eventRoutes(app, context);
  tenantRoutes(app, deps);
  keyRoutes(app, deps);
  healthRoutes(app, deps, isStopping);
  openapiRoute(app);
  await app.ready();
  refuseExpectations(app.server);

  return {
    app,
    listen: ({ host, port }) => app.listen({ host, port, listenTextResolver: () => 'listening' }),
    stop: (graceMs) => {
      stopped ??= stopServer({ app, streams, inFlight: requests.inFlight, graceMs });
      return stopped;
    },
  };
}

function createApp({ log, bodyLimitBytes }: HttpDeps): App {
  return fastify({
    loggerInstance: log,
    logController: new LogController({ disableRequestLogging: true, requestIdLogLabel: 'requestId' }),
    bodyLimit: bodyLimitBytes ?? BODY_LIMIT_BYTES,
    requestTimeout: REQUEST_TIMEOUT_MS,
    return503OnClosing: false,
    genReqId: requestId,
    routerOptions: { maxParamLength: 256 },
    ajv: {
      customOptions: {
        strict: true,
        coerceTypes: false,
        removeAdditional: false,
        useDefaults: false,
        allErrors: false,
      },
    },
    frameworkErrors: (error, request, reply) => handleError(error, request, reply),
    clientErrorHandler: handleClientError,
  }) as unknown as App;
}

/** The caller's own id when it is harmless, else a new one. */
function requestId(request: IncomingMessage): string {
  const given = request.headers['x-request-id'];
  return typeof given === 'string' && /^[A-Za-z0-9._-]{1,128}$/.test(given) ? given : `req_${nanoid()}`;
}

/** A route below /v1/ that forgot to name its roles must not exist. */
function refuseUnguardedRoutes(app: App): void {
  app.addHook('onRoute', ({ url, config }) => {
    if (url.startsWith('/v1/') && config?.roles === undefined) throw new Error(`route ${url} names no roles`);
  });
}
