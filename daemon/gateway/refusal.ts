// Refusals in the form that OpenAI-compatible clients know: {"error":{message,type,param,code}}.
import type { ServerResponse } from 'node:http';

export interface Refusal {
  status: number;
  message: string;
  type: string;
  code: string;
  param?: string;
  headers?: Record<string, string>;
}

export function invalidRequest(message: string, param?: string): Refusal {
  return {
    status: 400,
    message,
    type: 'invalid_request_error',
    code: 'invalid_request',
    ...(param === undefined ? {} : { param }),
  };
}

export const NOT_FOUND: Refusal = {
  status: 404,
  message: 'The gateway answers POST /v1/chat/completions and GET /v1/models only.',
  type: 'invalid_request_error',
  code: 'not_found',
};

export const MODEL_NOT_ALLOWED: Refusal = {
  status: 403,
  message: 'This job may not use that model. GET /v1/models lists those it may.',
  type: 'invalid_request_error',
  code: 'model_not_allowed',
  param: 'model',
};

export const BUDGET_SPENT: Refusal = {
  status: 402,
  message: "The tenant's monthly token budget is spent.",
  type: 'insufficient_quota',
  code: 'budget_spent',
};

export const TOO_MANY: Refusal = {
  status: 429,
  message: 'This job has too many model requests open. Wait for one to finish.',
  type: 'requests',
  code: 'rate_limit_exceeded',
  headers: { 'retry-after': '1' },
};

/** The worker takes this code as "the gateway is away" and repeats the request. */
export const GATEWAY_FULL: Refusal = {
  status: 503,
  message: 'The gateway holds too many requests just now. Try again.',
  type: 'server_error',
  code: 'gateway_unavailable',
  headers: { 'retry-after': '1' },
};

export const BODY_TOO_LARGE: Refusal = {
  status: 413,
  message: 'request_too_large: the request is larger than the gateway takes.',
  type: 'invalid_request_error',
  code: 'request_too_large',
};

/** The upstream could not be used; `cause` is a short code such as ECONNREFUSED, never its message. */
export function upstreamFailed(cause: string): Refusal {
  return {
    status: 502,
    message: `The model's endpoint could not be used (${cause}).`,
    type: 'upstream_error',
    code: 'upstream_unreachable',
  };
}

/** Sends the refusal, unless an answer has begun. */
export function sendRefusal(response: ServerResponse, refusal: Refusal): void {
  if (response.headersSent || response.destroyed) return;
  const { status, message, type, code, param = null, headers } = refusal;
  const body = Buffer.from(`${JSON.stringify({ error: { message, type, param, code } })}\n`);
  response.writeHead(status, {
    ...headers,
    'content-type': 'application/json',
    'content-length': body.length,
    'cache-control': 'no-store',
  });
  response.end(body);
}
