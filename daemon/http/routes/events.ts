// /v1/jobs/{jobId}/events: read a job's events again, or on, from a cursor.
import { Type } from 'typebox';
import { Problem } from '../../errors.ts';
import { answerStream, type StreamContext } from '../answer-stream.ts';
import type { App } from '../fastify-types.ts';
import { acceptsSse, lastEventId } from '../headers.ts';
import { CURSOR_PATTERN, refusals } from '../schemas/common.ts';
import { EventLine, EventsQuery } from '../schemas/job.ts';
import { checkJobId, JOB_READERS, JobParams } from './jobs.ts';

const CURSOR = new RegExp(CURSOR_PATTERN);

export function eventRoutes(app: App, context: StreamContext): void {
  app.get(
    '/v1/jobs/:jobId/events',
    {
      exposeHeadRoute: false,
      config: { roles: JOB_READERS },
      schema: {
        summary: "A job's events from the line after a cursor",
        description:
          'With `Accept: text/event-stream` each line is a message whose id is its cursor; `Last-Event-ID` is honoured, ' +
          'and a client that has already read the `end` line is answered 204, so that it stops asking.',
        tags: ['jobs'],
        params: JobParams,
        querystring: EventsQuery,
        headers: Type.Object({
          'last-event-id': Type.Optional(
            Type.String({ description: 'Takes the place of `after` for server-sent events.' }),
          ),
        }),
        response: {
          200: {
            description: 'The events',
            content: {
              'application/x-ndjson': { schema: EventLine },
              'text/event-stream': { schema: Type.String() },
            },
          },
          204: Type.Null({ description: 'Server-sent events only: nothing comes after this cursor, ever.' }),
          ...refusals(400, 401, 404, 410),
        },
      },
    },
    async (request, reply) => {
      const jobId = checkJobId(request.params.jobId);
      const sse = acceptsSse(request);
      const after = (sse ? lastEventId(request) : undefined) ?? request.query.after;
      if (after !== undefined && !CURSOR.test(after)) {
        throw new Problem(
          'DJ_CURSOR_INVALID',
          'A cursor is "<attempt>-<seq>" of a line already read, such as 1-42.',
        );
      }
      const wanted = { jobId, follow: request.query.follow ?? false, sse };
      await answerStream(context, request, reply, after === undefined ? wanted : { ...wanted, after });
      return reply;
    },
  );
}
