// The one table of error codes that HTTP callers may see. A code is never reused for another meaning.

/** code: [HTTP status, title]. The title is fixed; the detail of one occurrence says what to do. */
export const PROBLEMS = {
  DJ_BODY_INVALID: [400, 'The request body is not valid'],
  DJ_QUERY_INVALID: [400, 'The query or path is not valid'],
  DJ_CURSOR_INVALID: [400, 'The cursor is not valid'],
  DJ_HEADER_INVALID: [400, 'A request header is not valid'],
  DJ_REQUEST_MALFORMED: [400, 'The request is not valid HTTP'],
  DJ_TENANT_REQUIRED: [400, 'This key acts for several tenants and must name tenantId'],
  DJ_TENANT_NOT_ALLOWED: [400, 'This key belongs to one tenant and must not name tenantId'],
  DJ_UNAUTHENTICATED: [401, 'A valid bearer key is required'],
  DJ_BUDGET_SPENT: [402, "The tenant's monthly token budget is spent"],
  DJ_FORBIDDEN: [403, 'This key may not do that'],
  DJ_NOT_FOUND: [404, 'There is no such thing, or it is not yours'],
  DJ_METHOD_NOT_ALLOWED: [405, 'The method is not allowed here'],
  DJ_REQUEST_TIMEOUT: [408, 'The request took too long to arrive'],
  DJ_CONFLICT: [409, 'The request conflicts with the present state'],
  DJ_HISTORY_TRIMMED: [410, 'The history before the first kept cursor is gone'],
  DJ_BODY_TOO_LARGE: [413, 'The request body is too large'],
  DJ_URI_TOO_LONG: [414, 'The address is too long'],
  DJ_MEDIA_TYPE: [415, 'The content type is not supported'],
  DJ_EXPECTATION_FAILED: [417, 'The Expect header is not supported'],
  DJ_IDEMPOTENCY_MISMATCH: [422, 'The idempotency key was used with another body'],
  DJ_LIMIT_TOO_HIGH: [422, "A limit is above the tenant's own"],
  DJ_QUEUE_FULL: [429, "The tenant's queue is full"],
  DJ_RATE_LIMITED: [429, 'Too many requests'],
  DJ_HEADERS_TOO_LARGE: [431, 'The request headers are too large'],
  DJ_INTERNAL: [500, 'Something failed inside djinnd'],
  DJ_ENFORCEMENT: [503, 'This machine cannot enforce the required limits'],
  DJ_ENGINE_UNAVAILABLE: [503, "The tenant's engine is not installed on this machine"],
  DJ_NOT_READY: [503, 'djinnd is not ready'],
  DJ_STOPPING: [503, 'djinnd is stopping'],
} as const satisfies Record<string, readonly [number, string]>;

export type ProblemCode = keyof typeof PROBLEMS;

/** An expected refusal of a request. `extra` members are added to the problem document, `headers` to the answer. */
export class Problem extends Error {
  readonly code: ProblemCode;
  readonly extra: Record<string, unknown>;
  readonly headers: Record<string, string>;

  constructor(
    code: ProblemCode,
    detail: string,
    options: { extra?: Record<string, unknown>; headers?: Record<string, string> } = {},
  ) {
    super(detail);
    this.name = 'Problem';
    this.code = code;
    this.extra = options.extra ?? {};
    this.headers = options.headers ?? {};
  }

  get status(): number {
    return PROBLEMS[this.code][0];
  }
}
