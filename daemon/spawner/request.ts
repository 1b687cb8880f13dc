// Checks what djinnd sends, by hand and strictly: djinnd is not trusted. Nothing passes that is not named here.
import { Refusal } from './refusal.ts';
import type {
  AttemptRef,
  JobLimits,
  Method,
  Methods,
  StartParams,
  TenantTotals,
  WireRequest,
} from './wire.ts';

/** One request line, LF included. A prompt, a system prompt and images have to fit. */
export const MAX_REQUEST_BYTES = 32 * 1024 * 1024;

const JOB_ID = /^job_[A-Za-z0-9_-]{1,64}$/;
const NAME_ID = /^[A-Za-z0-9_-]{1,64}$/;
const ENGINE = /^[a-z][a-z0-9-]{0,31}$/;
const BASE64 = /^[A-Za-z0-9+/]*={0,2}$/;
const MAX_ATTEMPT = 1000;
const MAX_WALL_MS = 23 * 3_600_000;

type Check = (value: unknown, at: string) => void;

function fail(at: string, what: string): never {
  throw new Refusal('bad_request', `${at} ${what}`);
}

const text =
  (maxChars: number, minChars = 0): Check =>
  (value, at) => {
    if (typeof value !== 'string') fail(at, 'must be a string');
    if (value.length < minChars || value.length > maxChars)
      fail(at, `must have ${minChars} to ${maxChars} characters`);
  };
const matches =
  (pattern: RegExp): Check =>
  (value, at) => {
    if (typeof value !== 'string' || !pattern.test(value)) fail(at, `must match ${pattern.source}`);
  };
const integer =
  (min: number, max: number): Check =>
  (value, at) => {
    if (typeof value !== 'number' || !Number.isSafeInteger(value)) fail(at, 'must be an integer');
    if (value < min || value > max) fail(at, `must be between ${min} and ${max}`);
  };
const bool: Check = (value, at) => {
  if (typeof value !== 'boolean') fail(at, 'must be true or false');
};
const oneOf =
  (...values: string[]): Check =>
  (value, at) => {
    if (typeof value !== 'string' || !values.includes(value)) fail(at, `must be one of ${values.join(', ')}`);
  };
const listOf =
  (item: Check, max: number, min = 0): Check =>
  (value, at) => {
    if (!Array.isArray(value)) fail(at, 'must be a list');
    if (value.length < min || value.length > max) fail(at, `must have ${min} to ${max} entries`);
    for (let index = 0; index < value.length; index += 1) item(value[index], `${at}[${index}]`);
  };

/** An object with exactly these fields; a name that ends in `?` may be absent. */
function shape(fields: Record<string, Check>): Check {
  const names = new Map(
    Object.entries(fields).map(([name, check]) => {
      const optional = name.endsWith('?');
      return [optional ? name.slice(0, -1) : name, { check, optional }] as const;
    }),
  );
  return (value, at) => {
    if (typeof value !== 'object' || value === null || Array.isArray(value)) fail(at, 'must be an object');
    const object = value as Record<string, unknown>;
    for (const name of Object.keys(object)) {
      if (!names.has(name)) fail(at, `has an unknown field ${JSON.stringify(name).slice(0, 60)}`);
    }
    for (const [name, { check, optional }] of names) {
      if (Object.hasOwn(object, name)) check(object[name], `${at}.${name}`);
      else if (!optional) fail(at, `lacks the field ${name}`);
    }
  };
}

const count = integer(1, Number.MAX_SAFE_INTEGER);
const toolNames = listOf(text(128, 1), 256);
const attemptRef = { jobId: matches(JOB_ID), attempt: integer(1, MAX_ATTEMPT) };

const limits = shape({
  memoryBytes: count,
  pids: count,
  cpuPercent: count,
  wallMs: count,
  outputBytes: count,
  diskBytes: count,
});
const payload = shape({
  prompt: text(16 * 1024 * 1024),
  'images?': listOf(
    shape({ mediaType: oneOf('image/png', 'image/jpeg', 'image/gif', 'image/webp'), data: matches(BASE64) }),
    64,
  ),
  'systemPrompt?': text(4 * 1024 * 1024),
  models: listOf(shape({ id: text(256, 1), 'inputLimit?': count, 'outputLimit?': count }), 32, 1),
  'tools?': shape({ 'allow?': toolNames, 'deny?': toolNames }),
  'sandboxMode?': oneOf('workspace-write', 'read-only'),
});

const PARAMS: Record<Method, Check> = {
  hello: shape({}),
  control: shape({}),
  list: shape({}),
  start: shape({
    ...attemptRef,
    lastAttempt: bool,
    'retryReason?': oneOf('lost'),
    tenantId: matches(NAME_ID),
    sessionId: matches(NAME_ID),
    engine: matches(ENGINE),
    limits,
    totals: shape({ 'memoryBytes?': count, 'pids?': count, 'cpuPercent?': count }),
    network: oneOf('none', 'host'),
    payload,
  }),
  go: shape(attemptRef),
  cancel: shape({ ...attemptRef, cause: oneOf('cancelled', 'budget', 'gateway') }),
  forget: shape(attemptRef),
  prune: shape({ jobId: matches(JOB_ID) }),
  tenant: shape({ tenantId: matches(NAME_ID) }),
};

export type CheckedRequest = {
  [M in Method]: { id: number; method: M; params: Methods[M]['params'] };
}[Method];

/** One for the supervisor, not for the connection. */
export type JobRequest = Exclude<CheckedRequest, { method: 'control' }>;

/** The id of a request whose other parts may be wrong, so that the refusal can be addressed; null without one. */
export function requestId(message: unknown): number | null {
  const id = typeof message === 'object' && message !== null ? (message as { id?: unknown }).id : undefined;
  return typeof id === 'number' && Number.isSafeInteger(id) && id >= 0 ? id : null;
}

/** Checks one parsed message. Throws `Refusal` `bad_request`, whose message names the field and never its value. */
export function checkRequest(message: unknown): CheckedRequest {
  shape({ id: integer(0, Number.MAX_SAFE_INTEGER), method: text(32), params: () => {} })(message, 'request');
  const { id, method, params } = message as WireRequest;
  if (!Object.hasOwn(PARAMS, method)) fail('request.method', 'is unknown');
  PARAMS[method](params, 'params');
  if (method === 'start') checkStart(params as StartParams);
  return { id, method, params } as CheckedRequest;
}

function checkStart(params: StartParams): void {
  if (params.attempt > 1 && params.retryReason === undefined)
    fail('params.retryReason', 'is required for a retry');
  if (params.attempt === 1 && params.retryReason !== undefined) fail('params.retryReason', 'needs a retry');
}

/** The most that a job may ever have on this machine. */
export type Ceilings = JobLimits;

/** Ceilings for a machine of this size. A `wallMs` above 23 h would outlive the queue entry of its job. */
export function defaultCeilings(machine: { memoryBytes: number; cores: number }): Ceilings {
  return {
    memoryBytes: machine.memoryBytes,
    pids: 32_768,
    cpuPercent: machine.cores * 100,
    wallMs: MAX_WALL_MS,
    outputBytes: 16 * 1024 ** 3,
    diskBytes: 1024 ** 4,
  };
}

/** Limits as they will be applied: each at most its ceiling. */
export function clampLimits(limits: JobLimits, ceilings: Ceilings): JobLimits {
  return {
    memoryBytes: Math.min(limits.memoryBytes, ceilings.memoryBytes),
    pids: Math.min(limits.pids, ceilings.pids),
    cpuPercent: Math.min(limits.cpuPercent, ceilings.cpuPercent),
    wallMs: Math.min(limits.wallMs, ceilings.wallMs),
    outputBytes: Math.min(limits.outputBytes, ceilings.outputBytes),
    diskBytes: Math.min(limits.diskBytes, ceilings.diskBytes),
  };
}

/** Totals of a tenant's slice as they will be applied; a missing one stays missing. */
export function clampTotals(totals: TenantTotals, ceilings: Ceilings): TenantTotals {
  const clamped: TenantTotals = {};
  for (const name of ['memoryBytes', 'pids', 'cpuPercent'] as const) {
    const value = totals[name];
    if (value !== undefined) clamped[name] = name === 'pids' ? value : Math.min(value, ceilings[name]);
  }
  return clamped;
}

/** Key of one attempt in tables and logs. */
export function attemptKey(ref: AttemptRef): string {
  return `${ref.jobId}/${ref.attempt}`;
}
