// /openapi.json and /docs, both made from the routes' own schemas; every asset is served from here.
import fastifySwagger from '@fastify/swagger';
import fastifySwaggerUi from '@fastify/swagger-ui';
import type { App } from './fastify-types.ts';
import { ProblemDocument } from './schemas/common.ts';

const CSP = {
  'default-src': "'none'",
  'base-uri': "'none'",
  'connect-src': "'self'",
  'font-src': "'self'",
  'form-action': "'none'",
  'frame-ancestors': "'none'",
  'img-src': "'self' data:",
  'script-src': "'self'",
  'style-src': "'self' 'unsafe-inline'",
};

/** Has to be awaited before the first route is added, so that it sees them all. */
export async function documentRoutes(app: App, version: string): Promise<void> {
  app.addSchema(ProblemDocument);
  await app.register(fastifySwagger, {
    refResolver: {
      buildLocalReference: (schema, _base, _fragment, at) => String(schema.$id ?? `schema-${at}`),
    },
    openapi: {
      openapi: '3.1.0',
      info: {
        title: 'djinnd',
        version,
        description: 'Runs headless AI agents for many tenants and streams every step back.',
        license: { name: 'MIT', identifier: 'MIT' },
      },
      tags: [{ name: 'jobs' }, { name: 'tenants' }, { name: 'health' }],
      components: { securitySchemes: { key: { type: 'http', scheme: 'bearer', bearerFormat: 'djk_…' } } },
    },
  });
  await app.register(fastifySwaggerUi, {
    routePrefix: '/docs',
    staticCSP: CSP,
    uiConfig: { validatorUrl: null, deepLinking: true, tryItOutEnabled: false },
    theme: { title: 'djinnd' },
  });
  app.addHook('onRoute', (route) => {
    if (route.config?.roles !== undefined && route.schema !== undefined)
      route.schema.security = [{ key: [] }];
  });
}

export function openapiRoute(app: App): void {
  app.get(
    '/openapi.json',
    { schema: { summary: 'This document', tags: ['health'], response: { 200: { type: 'object' } } } },
    async () => app.swagger(),
  );
}

/** The document as committed: keys in the order of the routes, two spaces, LF at the end. */
export function renderDocument(app: App): string {
  return `${JSON.stringify(app.swagger(), null, 2)}\n`;
}
