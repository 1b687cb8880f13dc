// Answers what no route took: 405 with Allow when the address exists under another method, else 404.
import type { FastifyRequest } from 'fastify';
import { Problem } from '../errors.ts';
import type { App } from './fastify-types.ts';
import { sendProblem } from './problem.ts';

/** Has to be called before the routes are added, so that it sees them all. */
export function answerUnmatched(app: App): void {
  const methodsByRoute = new Map<string, { pattern: RegExp; methods: Set<string> }>();
  app.addHook('onRoute', ({ url, method }) => {
    const entry = methodsByRoute.get(url) ?? { pattern: patternOf(url), methods: new Set<string>() };
    for (const one of [method].flat()) entry.methods.add(one);
    methodsByRoute.set(url, entry);
  });
  const allowed = (request: FastifyRequest): string[] => {
    const path = request.url.split('?', 1)[0] ?? '';
    const matching = [...methodsByRoute.values()].filter(({ pattern }) => pattern.test(path));
    return [...new Set(matching.flatMap(({ methods }) => [...methods]))].sort();
  };
  app.setNotFoundHandler((request, reply) => {
    const methods = allowed(request);
    if (methods.length === 0 || methods.includes(request.method)) {
      return sendProblem(
        request,
        reply,
        new Problem('DJ_NOT_FOUND', 'There is nothing at this address. See /docs.'),
      );
    }
    const allow = methods.join(', ');
    const headers = { allow };
    return sendProblem(
      request,
      reply,
      new Problem('DJ_METHOD_NOT_ALLOWED', `Use one of ${allow}.`, { headers }),
    );
  });
}

function patternOf(url: string): RegExp {
  const source = url
    .split('/')
    .map((segment) => (segment === '*' ? '.*' : segment.startsWith(':') ? '[^/]+' : escapeRegExp(segment)))
    .join('/');
  return new RegExp(`^${source}$`);
}

function escapeRegExp(text: string): string {
  return text.replaceAll(/[.*+?^${}()|[\]\\]/g, '\\$&');
}
