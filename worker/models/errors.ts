// What a failed model request means: one kind per way of going on. Pure; sends nothing and waits for nothing.
import type { Usage } from '../protocol.ts';
import { excerpt } from '../text.ts';

/**
 * `overflow` compacts; `gateway` repeats to the same model; `bad_request`, `budget` and `cancelled` end the run;
 * `quota`, `auth`, `unknown_model`, `not_api` and `content_filter` move on at once; the rest is worth another try.
 */
export type FailureKind =
  | 'overflow'
  | 'gateway'
  | 'bad_request'
  | 'budget'
  | 'cancelled'
  | 'quota'
  | 'auth'
  | 'unknown_model'
  | 'not_api'
  | 'content_filter'
  | 'rate_limit'
  | 'server'
  | 'network'
  | 'stall'
  | 'early_end'
  | 'malformed'
  | 'empty';

/** Units of a message before keys are taken out of it and it is cut for the log, so that none is cut in half. */
const RAW_LENGTH = 8192;

export class ModelError extends Error {
  readonly kind: FailureKind;
  /** HTTP status, when there was an answer. */
  readonly status: number | undefined;
  /** What the server asked to wait, in milliseconds. */
  readonly retryAfterMs: number | undefined;
  /** True when the connection broke after the head of the answer. */
  readonly answered: boolean;
  /** What the failed answer cost, when the provider said so. */
  usage: Usage | null = null;

  constructor(
    kind: FailureKind,
    message: string,
    more: { status?: number; retryAfterMs?: number; answered?: boolean } = {},
  ) {
    super(excerpt(message, RAW_LENGTH));
    this.kind = kind;
    this.status = more.status;
    this.retryAfterMs = more.retryAfterMs;
    this.answered = more.answered ?? false;
  }
}

const OVERFLOW = [
  /prompt is too long/i,
  /request_too_large/i,
  /exceeds? the context window/i,
  /context_length_exceeded/i,
  /maximum context length is/i,
  /input token count.*exceeds the maximum/i,
  /maximum prompt length is/i,
  /reduce the length of the messages/i,
  /exceeds the limit of \d+/i,
  /exceeds the available context size/i,
  /exceed_context_size_error/i,
  /greater than the context length/i,
  /context window exceeds limit/i,
  /exceeded model token limit/i,
  /too large for model with \d+ maximum context length/i,
  /model_context_window_exceeded/i,
  /exceeded max context length/i,
  /range of input length should be/i,
];
/** Limits of other things than the prompt that are said in the same words. */
const OTHER_LIMIT =
  /max_(completion_|output_)?tokens?.{0,80}exceeds the limit|(image|file|audio|video|tools?|stop).{0,60}exceeds the limit/i;
const THROTTLE = /rate.?limit|throttl|too many (requests|tokens)|tokens per (minute|day)|\b[TR]PM\b/i;
const QUOTA =
  /insufficient[_ ](quota|balance|funds)|billing_(hard_limit|not_active)|credit balance|exceeded_current_quota|Arrearage/i;
/** Also said by some of a limit per minute, which then comes with a time to wait. */
const QUOTA_OR_RATE = /exceeded your current quota/i;
const UNKNOWN_MODEL = /model_not_found|model .{0,120}(does not exist|not found|not exist)|unknown model/i;
const FILTERED = /content_filter|content_policy|data_inspection_failed|DataInspectionFailed/i;
const BUDGET = /^(DJ_)?(monthly_)?budget(_exceeded|_spent)?$/i;

interface ErrorText {
  message: string;
  /** `code` and `type` of the body, joined. */
  codes: string;
  codeNumber: number | undefined;
  code: string;
}

const asText = (value: unknown): string => (typeof value === 'string' ? value : '');

/** Reads `{error:{message,type,code}}`, the same not nested, `{error:"…"}`, `{detail:"…"}` or plain text. */
function readErrorText(body: unknown): ErrorText {
  if (typeof body !== 'object' || body === null) {
    return { message: String(body ?? ''), codes: '', codeNumber: undefined, code: '' };
  }
  // Gemini wraps its errors in a list.
  const outer = (Array.isArray(body) ? (body[0] ?? {}) : body) as Record<string, unknown>;
  if (typeof outer.error === 'string') {
    return { message: outer.error, codes: '', codeNumber: undefined, code: '' };
  }
  const inner = (typeof outer.error === 'object' && outer.error !== null ? outer.error : outer) as Record<
    string,
    unknown
  >;
  const message = asText(inner.message) || asText(inner.detail) || asText(outer.message);
  return {
    message: message || excerpt(JSON.stringify(body), 300),
    codes: `${asText(inner.code)} ${asText(inner.type)} ${asText(outer.type)}`.trim(),
    codeNumber: typeof inner.code === 'number' ? inner.code : undefined,
    code: asText(inner.code),
  };
}

interface Told {
  status: number;
  text: ErrorText;
  emptyBody: boolean;
  retryAfterMs: number | undefined;
}

function kindOf({ status, text, emptyBody, retryAfterMs }: Told): FailureKind {
  const all = `${text.codes} ${text.message}`;
  if (BUDGET.test(text.code)) return 'budget';
  if (/^gateway_(away|closing|unavailable)$/i.test(text.code)) return 'gateway';
  if (QUOTA.test(all) || status === 402) return 'quota';
  if (QUOTA_OR_RATE.test(all) && retryAfterMs === undefined) return 'quota';
  if (status === 429) return 'rate_limit';
  if (status === 401 || status === 403) return FILTERED.test(all) ? 'content_filter' : 'auth';
  // Groq says 413 of a limit per minute, and others "reduce the length of the messages".
  const throttled = THROTTLE.test(all);
  const tooLong = OVERFLOW.some((said) => said.test(all)) && !OTHER_LIMIT.test(all);
  const saidByStatus = status === 413 || (status === 400 && emptyBody);
  if (!throttled && (tooLong || saidByStatus)) return 'overflow';
  if (FILTERED.test(all)) return 'content_filter';
  if (status === 404 || UNKNOWN_MODEL.test(all)) return 'unknown_model';
  if (throttled) return 'rate_limit';
  if (status >= 500 || status === 408 || status === 425) return 'server';
  return status >= 300 && status < 400 ? 'not_api' : 'bad_request';
}

/** Classifies an answer with an error status. `body` is the text as received, already bounded. */
export function classifyResponse(status: number, body: string, retryAfterMs: number | undefined): ModelError {
  let parsed: unknown = body;
  try {
    parsed = JSON.parse(body);
  } catch {
    // Not JSON: the plain text is the message.
  }
  const text = readErrorText(parsed);
  const kind = kindOf({ status, text, emptyBody: body.trim() === '', retryAfterMs });
  const label = text.codes === '' ? '' : ` ${text.codes.split(' ')[0]}`;
  return new ModelError(kind, `${status}${label}: ${text.message || 'empty body'}`, {
    status,
    answered: true,
    ...(retryAfterMs === undefined ? {} : { retryAfterMs }),
  });
}

/** Classifies an error that came as data of a stream whose status was 200. */
export function classifyStreamError(error: unknown): ModelError {
  const text = readErrorText({ error });
  const status = text.codeNumber !== undefined && text.codeNumber >= 400 ? text.codeNumber : 500;
  const kind = kindOf({ status, text, emptyBody: false, retryAfterMs: undefined });
  return new ModelError(kind, `error in the stream: ${text.codes} ${text.message}`.trim(), {
    status,
    answered: true,
  });
}

/** The three forms of a date in RFC 9110, 5.6.7: IMF-fixdate, and the two old ones that a recipient must take. */
const HTTP_DATES = [
  /^[A-Z][a-z]{2}, \d{2} [A-Z][a-z]{2} \d{4} \d{2}:\d{2}:\d{2} GMT$/,
  /^[A-Z][a-z]{5,8}, \d{2}-[A-Z][a-z]{2}-\d{2} \d{2}:\d{2}:\d{2} GMT$/,
  /^[A-Z][a-z]{2} [A-Z][a-z]{2} [ \d]\d \d{2}:\d{2}:\d{2} \d{4}$/,
];

/**
 * `retry-after-ms`, or `Retry-After` as whole seconds or a date (RFC 9110, 10.2.3). Anything else, the past and zero
 * mean "no figure": `Date.parse` reads `-3` and `1.5` as years, so only the exact forms are parsed.
 */
export function parseRetryAfter(
  headers: Record<string, string | string[] | undefined>,
  nowMs: number,
): number | undefined {
  const exact = headers['retry-after-ms'];
  if (typeof exact === 'string' && /^\d{1,12}(\.\d{1,6})?$/.test(exact) && Number(exact) > 0)
    return Math.ceil(Number(exact));
  const value = headers['retry-after'];
  if (typeof value !== 'string') return undefined;
  if (/^\d{1,12}$/.test(value)) return Number(value) > 0 ? Number(value) * 1000 : undefined;
  if (!HTTP_DATES.some((form) => form.test(value))) return undefined;
  const waitMs = Date.parse(value.endsWith('GMT') ? value : `${value} GMT`) - nowMs;
  return Number.isFinite(waitMs) && waitMs > 0 ? waitMs : undefined;
}
