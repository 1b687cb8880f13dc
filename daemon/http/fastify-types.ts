// The fastify types of this server: the typebox provider, and what is added to requests and routes.

import type { IncomingMessage, ServerResponse } from 'node:http';
import type { TypeBoxTypeProvider } from '@fastify/type-provider-typebox';
import type { FastifyBaseLogger, FastifyInstance, RawServerDefault } from 'fastify';
import type { Caller, Role } from './deps.ts';

export type App = FastifyInstance<
  RawServerDefault,
  IncomingMessage,
  ServerResponse,
  FastifyBaseLogger,
  TypeBoxTypeProvider
>;

declare module 'fastify' {
  interface FastifyRequest {
    /** Set on every route that names roles. */
    caller: Caller;
  }
  interface FastifyContextConfig {
    /** Who may use the route. Every route below /v1/ must name them. */
    roles?: readonly Role[];
    /** Refused with DJ_STOPPING once the daemon stops. */
    startsWork?: boolean;
  }
}
