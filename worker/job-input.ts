// The job line of a supervisor: checks its form and turns it into the options of a run. Pure.
import { PROTOCOL_VERSION, type PromptImage } from './protocol.ts';
import type { Budget, Redo, RunOptions } from './run-options.ts';
import { readModelEntry } from './settings.ts';

/** A job line that cannot be run; the message names the field. */
export class JobError extends Error {}

type Json = Record<string, unknown>;
const isObject = (value: unknown): value is Json =>
  typeof value === 'object' && value !== null && !Array.isArray(value);
const isText = (value: unknown): value is string => typeof value === 'string';
const isOptionalNumber = (value: unknown): boolean => value === undefined || typeof value === 'number';
const isTexts = (value: unknown): value is string[] => Array.isArray(value) && value.every(isText);

function need<T>(job: Json, name: string, check: (value: unknown) => value is T): T {
  const value = job[name];
  if (!check(value)) throw new JobError(`job.${name} is missing or wrong`);
  return value;
}

function maybe<T>(job: Json, name: string, check: (value: unknown) => value is T): T | undefined {
  return job[name] === undefined ? undefined : need(job, name, check);
}

const isImage = (value: unknown): value is PromptImage =>
  isObject(value) &&
  isText(value.data) &&
  isText(value.mediaType) &&
  /^image\/(png|jpeg|gif|webp)$/.test(value.mediaType);
const isImages = (value: unknown): value is PromptImage[] => Array.isArray(value) && value.every(isImage);
const isFilter = (value: unknown): value is { allow?: string[]; deny?: string[] } =>
  isObject(value) &&
  (value.allow === undefined || isTexts(value.allow)) &&
  (value.deny === undefined || isTexts(value.deny));
const isBudget = (value: unknown): value is Budget =>
  isObject(value) && [value.requests, value.tokens, value.wallMs, value.repeats].every(isOptionalNumber);
const isGroup = (value: unknown): value is { procs: string; events: string } =>
  isObject(value) && isText(value.procs) && isText(value.events);
const isMode = (value: unknown): value is 'workspace-write' | 'read-only' =>
  value === 'workspace-write' || value === 'read-only';
const isWorkspace = (value: unknown): value is 'existing' | 'new' => value === 'existing' || value === 'new';
const isRedo = (value: unknown): value is Redo => value === 'auto' || value === 'always' || value === 'never';
const isAttempt = (value: unknown): value is number => Number.isSafeInteger(value) && (value as number) >= 1;
const isList = (value: unknown): value is unknown[] => Array.isArray(value) && value.length > 0;
const isSession = (value: unknown): value is { provider: 'fd' } => isObject(value) && value.provider === 'fd';

function parseLine(line: string): Json {
  let job: unknown;
  try {
    job = JSON.parse(line);
  } catch {
    throw new JobError('the job is not valid JSON');
  }
  if (!isObject(job)) throw new JobError('the job is not a JSON object');
  if (job.v !== PROTOCOL_VERSION) throw new JobError(`job.v must be ${PROTOCOL_VERSION}`);
  return job;
}

/** Leaves out what is undefined, so that optional fields stay absent. */
function defined<T extends object>(fields: { [K in keyof T]: T[K] | undefined }): T {
  return Object.fromEntries(Object.entries(fields).filter(([, value]) => value !== undefined)) as T;
}

/** Reads the job line (see `Job` in protocol.ts). Unknown fields are ignored. Throws a JobError or SettingsError. */
export function readJob(line: string): RunOptions {
  const job = parseLine(line);
  need(job, 'session', isSession);
  const readOnly = maybe(job, 'sandboxMode', isMode) === 'read-only';
  return defined<RunOptions>({
    prompt: need(job, 'prompt', isText),
    images: maybe(job, 'images', isImages),
    sessionId: need(job, 'sessionId', isText),
    cwd: need(job, 'cwd', isText),
    models: need(job, 'models', isList).map((entry, index) => readModelEntry(entry, `job.models[${index}]`)),
    tools: maybe(job, 'tools', isFilter),
    systemPrompt: maybe(job, 'systemPrompt', isText),
    signal: undefined,
    session: { provider: 'fd' },
    readOnly,
    guards: undefined,
    budget: maybe(job, 'budget', isBudget),
    engine: need(job, 'engine', isText),
    jobId: need(job, 'jobId', isText),
    attempt: need(job, 'attempt', isAttempt),
    workspace: maybe(job, 'workspace', isWorkspace),
    toolsCgroup: maybe(job, 'toolsCgroup', isGroup),
    redo: maybe(job, 'redo', isRedo),
    idleTimeoutMs: undefined,
    queueTimeoutMs: undefined,
    coolingFile: undefined,
    log: undefined,
  });
}
