// /healthz: the process answers. /readyz: it can take jobs, or why not and what this machine enforces.
import { Problem } from '../../errors.ts';
import type { HttpDeps } from '../deps.ts';
import type { App } from '../fastify-types.ts';
import { sendProblem } from '../problem.ts';
import { refusals } from '../schemas/common.ts';
import { Health, Readiness } from '../schemas/health.ts';

export function healthRoutes(app: App, deps: HttpDeps, isStopping: () => boolean): void {
  app.get(
    '/healthz',
    {
      logLevel: 'warn',
      schema: { summary: 'The process is alive', tags: ['health'], response: { 200: Health } },
    },
    async () => ({ status: 'ok' as const }),
  );

  app.get(
    '/readyz',
    {
      logLevel: 'warn',
      schema: {
        summary: 'Jobs can be taken and run here',
        description: 'The 503 carries the same members `ready`, `reasons` and `enforcement`.',
        tags: ['health'],
        response: { 200: Readiness, ...refusals(503) },
      },
    },
    async (request, reply) => {
      const enforcement = deps.enforcement();
      const reasons = [...deps.jobs.readiness().reasons, ...refusal(enforcement)];
      if (isStopping()) reasons.unshift('djinnd is stopping');
      const ready = deps.jobs.readiness().ready && reasons.length === 0;
      void reply.header('cache-control', 'no-store');
      if (ready) return { ready, reasons, enforcement };
      const detail = reasons.length === 0 ? 'djinnd has not finished starting.' : reasons.join('; ');
      return sendProblem(
        request,
        reply,
        new Problem('DJ_NOT_READY', detail, { extra: { ready, reasons, enforcement } }),
      );
    },
  );
}

function refusal(enforcement: ReturnType<HttpDeps['enforcement']>): string[] {
  if (enforcement === null) return ['the spawner is not connected'];
  if (!enforcement.refused) return [];
  return [enforcement.reason ?? 'this machine cannot enforce the required limits'];
}
