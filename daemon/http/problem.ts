// Turns whatever went wrong into an application/problem+json answer. Never repeats a value that the caller sent.
import type { FastifyError, FastifyReply, FastifyRequest } from 'fastify';
import { PROBLEMS, Problem, type ProblemCode } from '../errors.ts';
import { describeViolation } from './violation.ts';

export const PROBLEM_TYPE = 'application/problem+json';

/** The document of one problem; `extra` members never replace the standard ones. */
export function problemDocument(problem: Problem, requestId: string): Record<string, unknown> {
  const [status, title] = PROBLEMS[problem.code];
  const type = `urn:djinnd:problem:${problem.code}`;
  return { ...problem.extra, type, title, status, code: problem.code, detail: problem.message, requestId };
}

export function sendProblem(request: FastifyRequest, reply: FastifyReply, problem: Problem): FastifyReply {
  // The parser asks to close after a bad body; the rest of the body is drained instead, or the client, still
  // sending, would see a reset and never read why.
  reply.removeHeader('connection');
  return reply
    .code(problem.status)
    .headers({ ...problem.headers, 'cache-control': 'no-store', 'content-type': PROBLEM_TYPE })
    .serializer(JSON.stringify)
    .send(problemDocument(problem, request.id));
}

/** Fastify's error handler. Expected refusals are sent as they are; everything else is logged and says only 500. */
export function handleError(error: FastifyError | Error, request: FastifyRequest, reply: FastifyReply): void {
  const problem = toProblem(error, request);
  if (problem.code === 'DJ_INTERNAL' || problem.code === 'DJ_NOT_READY') {
    request.log.error({ err: error }, 'request failed');
  }
  void sendProblem(request, reply, problem);
}

function toProblem(error: FastifyError | Error, request: FastifyRequest): Problem {
  if (error instanceof Problem) return error;
  const code = 'code' in error ? String(error.code) : '';
  if ('validation' in error && error.validation !== undefined) {
    const part = error.validationContext ?? 'body';
    return new Problem(
      part === 'body' ? 'DJ_BODY_INVALID' : 'DJ_QUERY_INVALID',
      describeViolation(part, error.validation, request.body),
    );
  }
  const known = FASTIFY_ERRORS[code];
  if (known !== undefined) return new Problem(known[0], known[1]);
  if (isDatabaseAway(error, code)) {
    return new Problem('DJ_NOT_READY', 'The database is not reachable just now. Try again.', {
      headers: { 'retry-after': '2' },
    });
  }
  const status = 'statusCode' in error ? Number(error.statusCode) : 500;
  if (status >= 400 && status < 500)
    return new Problem('DJ_REQUEST_MALFORMED', 'The request cannot be understood.');
  return new Problem('DJ_INTERNAL', 'Not your fault. The log has the cause under this requestId.');
}

const FASTIFY_ERRORS: Record<string, [ProblemCode, string] | undefined> = {
  FST_ERR_CTP_INVALID_MEDIA_TYPE: ['DJ_MEDIA_TYPE', 'Send the body as application/json.'],
  FST_ERR_CTP_BODY_TOO_LARGE: ['DJ_BODY_TOO_LARGE', 'Send a smaller body; images count as base64.'],
  FST_ERR_CTP_INVALID_CONTENT_LENGTH: [
    'DJ_BODY_INVALID',
    'The body was shorter or longer than its Content-Length. Send it whole.',
  ],
  FST_ERR_BAD_URL: ['DJ_QUERY_INVALID', 'The path has a malformed percent-encoding.'],
  FST_ERR_MAX_PARAM_LENGTH: ['DJ_NOT_FOUND', 'There is nothing at this address.'],
  ECONNRESET: ['DJ_BODY_INVALID', 'The connection closed before the whole body was there.'],
};

const AWAY_CODES = new Set([
  'ECONNREFUSED',
  'ENOENT',
  'ENOTFOUND',
  'EAI_AGAIN',
  '57P01',
  '57P02',
  '57P03',
  '08000',
  '08003',
  '08006',
  '53300',
]);

function isDatabaseAway(error: Error, code: string): boolean {
  return (
    AWAY_CODES.has(code) ||
    /^(Connection terminated|timeout exceeded when trying to connect)/.test(error.message)
  );
}
