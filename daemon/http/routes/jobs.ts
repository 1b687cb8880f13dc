// /v1/jobs: start, look at, list and cancel jobs.
import { Type } from 'typebox';
import { Problem } from '../../errors.ts';
import { answerStream, type StreamContext } from '../answer-stream.ts';
import { narrowTo, tenantOf } from '../auth.ts';
import type { Role } from '../deps.ts';
import type { App } from '../fastify-types.ts';
import { idempotencyKey, prefersAsync } from '../headers.ts';
import { JOB_ID_PATTERN, refusals } from '../schemas/common.ts';
import { EventLine, JobBody, JobList, JobListQuery, JobView } from '../schemas/job.ts';

export const JOB_READERS: readonly Role[] = ['caller', 'tenant_admin', 'platform', 'operator'];
const JOB_STARTERS: readonly Role[] = ['caller', 'tenant_admin', 'platform'];
export const JobParams = Type.Object({
  jobId: Type.String({ description: 'As given when the job was made.' }),
});

const JOB_ID = new RegExp(JOB_ID_PATTERN);
/** A page of the list carries the metadata of 200 jobs, and djinnd makes it in one piece. */
const METADATA_BYTES = 16 * 1024;

/** An id that cannot exist is answered exactly like one that does not. */
export function checkJobId(jobId: string): string {
  if (!JOB_ID.test(jobId)) throw new Problem('DJ_NOT_FOUND', 'There is no job with this id.');
  return jobId;
}

export function jobRoutes(app: App, context: StreamContext): void {
  startRoute(app, context);
  const { jobs } = context.deps;
  const read = { roles: JOB_READERS };

  app.get(
    '/v1/jobs',
    {
      config: read,
      schema: {
        summary: 'List jobs, newest first',
        tags: ['jobs'],
        querystring: JobListQuery,
        response: { 200: JobList, ...refusals(400, 401, 403) },
      },
    },
    async ({ caller, query }) => {
      const { limit = 50, cursor, state, tenantId } = query;
      return await jobs.list(narrowTo(caller, tenantId), {
        limit,
        ...(cursor === undefined ? {} : { cursor }),
        ...(state === undefined ? {} : { state }),
      });
    },
  );

  app.get(
    '/v1/jobs/:jobId',
    {
      config: read,
      schema: {
        summary: 'One job: state, outcome, evidence, resources',
        tags: ['jobs'],
        params: JobParams,
        response: { 200: JobView, ...refusals(401, 404) },
      },
    },
    async ({ caller, params }) => await jobs.get(caller, checkJobId(params.jobId)),
  );

  app.post(
    '/v1/jobs/:jobId/cancel',
    {
      config: read,
      schema: {
        summary: 'Cancel a job; idempotent, a job that has ended stays as it is',
        tags: ['jobs'],
        params: JobParams,
        response: { 200: JobView, ...refusals(401, 404) },
      },
    },
    async ({ caller, params }) => await jobs.cancel(caller, checkJobId(params.jobId)),
  );
}

function startRoute(app: App, context: StreamContext): void {
  const { jobs } = context.deps;
  app.post(
    '/v1/jobs',
    {
      config: { roles: JOB_STARTERS, startsWork: true },
      schema: {
        summary: 'Start a job and stream its events until `end`',
        description:
          'With `Prefer: respond-async` answers 202 with the job instead. The same `Idempotency-Key` attaches to the ' +
          'same job. A stream that closes without an `end` line is incomplete: read on with ' +
          '`GET /v1/jobs/{jobId}/events?after=…&follow=true`. Closing the stream leaves the job running.',
        tags: ['jobs'],
        headers: Type.Object({
          prefer: Type.Optional(Type.String({ description: '`respond-async`' })),
          'idempotency-key': Type.Optional(Type.String({ description: '1 to 255 visible ASCII characters' })),
        }),
        body: JobBody,
        response: {
          200: { description: 'The live stream', content: { 'application/x-ndjson': { schema: EventLine } } },
          202: JobView,
          ...refusals(400, 401, 402, 403, 413, 415, 422, 429, 503),
        },
      },
    },
    async (request, reply) => {
      const { caller, body, log } = request;
      checkMetadata(body.metadata);
      const admitted = { ...body, tenantId: tenantOf(caller, body.tenantId) };
      const { job, created } = await jobs.admit(caller, admitted, idempotencyKey(request));
      void reply.headers({
        location: `/v1/jobs/${job.jobId}`,
        'cache-control': 'no-store',
        ...(created ? {} : { 'idempotency-replayed': 'true' }),
      });
      log.info({ jobId: job.jobId, tenantId: job.tenantId, created }, 'job admitted');
      if (prefersAsync(request)) {
        return reply.code(202).header('preference-applied', 'respond-async').send(job);
      }
      const end = await answerStream(context, request, reply, { jobId: job.jobId, follow: true, sse: false });
      if (end === 'client_gone' && created && body.cancelOnDisconnect === true) {
        // Nobody is left to be told of a failure, but whoever reads the log.
        await jobs.cancel(caller, job.jobId).catch((error: unknown) => {
          log.error({ err: error, jobId: job.jobId }, 'not cancelled after its caller left');
        });
      }
      return reply;
    },
  );
}

function checkMetadata(metadata: unknown): void {
  if (metadata === undefined || Buffer.byteLength(JSON.stringify(metadata)) <= METADATA_BYTES) return;
  throw new Problem(
    'DJ_BODY_INVALID',
    `The body at /metadata has more than ${METADATA_BYTES} bytes as JSON.`,
  );
}
