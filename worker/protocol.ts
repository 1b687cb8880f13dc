// The worker protocol: the job line a program reads, the eight events it may write, and their validation.
// Shared by the worker and the spawner; imports nothing.

/** Protocol version of the job line. A program refuses a version that it does not know. */
export const PROTOCOL_VERSION = 1;

/** One line on stdout, LF included, may have at most this many bytes (16 MiB). */
export const MAX_LINE_BYTES = 16 * 1024 * 1024;

/** Token counts as the provider reported them, summed over the requests of one run. */
export interface Usage {
  inputTokens: number;
  outputTokens: number;
  totalTokens: number;
}

export interface SessionEvent {
  type: 'session';
  sessionId: string;
  /** True when records of an earlier run were found. */
  resumed: boolean;
  engine: string;
  model: string;
  /** True when the conversation came from another engine as a transcript. */
  handoff?: boolean;
  /** `new` when a session is resumed without its files. */
  workspace?: 'existing' | 'new';
}
export interface TokenEvent {
  type: 'token';
  text: string;
  reasoning?: boolean;
}
export interface ToolCallEvent {
  type: 'tool_call';
  id: string;
  name: string;
  /** The arguments as the JSON text that the model wrote. */
  arguments: string;
}
export interface ToolResultEvent {
  type: 'tool_result';
  id: string;
  name: string;
  content: string;
  isError: boolean;
}
export interface FallbackEvent {
  type: 'fallback';
  from: string;
  to: string;
  reason: string;
  /** True: readers drop the text streamed since the current request began. */
  discard: boolean;
}
export interface CompactEvent {
  type: 'compact';
  /** Estimated tokens before and after. */
  from: number;
  to: number;
  method: 'summary' | 'trim';
}
export interface DoneEvent {
  type: 'done';
  sessionId: string;
  /** Model requests made. */
  turns: number;
  usage: Usage;
  /** The final answer. */
  text: string;
  /** Present when the answer was cut at the output limit of the model. */
  finishReason?: 'length';
}
export interface ErrorEvent {
  type: 'error';
  code: string;
  message: string;
  retryable: boolean;
}

export type WorkerEvent =
  | SessionEvent
  | TokenEvent
  | ToolCallEvent
  | ToolResultEvent
  | FallbackEvent
  | CompactEvent
  | DoneEvent
  | ErrorEvent;

export type WorkerEventType = WorkerEvent['type'];

/** One model that a run may use; the first of the list is the primary. */
export interface ModelEntry {
  /** The model's name as the endpoint knows it. */
  id: string;
  /** `https://host/v1`, `http://host/v1` or `unix:/path/to.sock:/v1`. */
  baseUrl: string;
  /** Absent behind the gateway, which adds the provider's key itself. */
  apiKey?: string;
  /** Further headers of each request, such as `api-key`; their values are treated as secrets. */
  headers?: Record<string, string>;
  /** Tokens the model accepts as input. */
  inputLimit?: number;
  /** Tokens the model may write in one answer. */
  outputLimit?: number;
  /** True: the endpoint is the daemon's gateway; being away is not the model's fault. */
  gateway?: boolean;
}

export interface PromptImage {
  mediaType: 'image/png' | 'image/jpeg' | 'image/gif' | 'image/webp';
  /** Base64 of the file's bytes. */
  data: string;
}

/** The job as one JSON line on stdin. */
export interface Job {
  v: typeof PROTOCOL_VERSION;
  jobId: string;
  attempt: number;
  sessionId: string;
  engine: string;
  prompt: string;
  images?: PromptImage[];
  systemPrompt?: string;
  models: ModelEntry[];
  tools?: { allow?: string[]; deny?: string[] };
  sandboxMode?: 'workspace-write' | 'read-only';
  /** What the run may spend: requests to models, tokens, milliseconds, rounds in a row that change nothing. */
  budget?: { requests?: number; tokens?: number; wallMs?: number; repeats?: number };
  /** Working directory inside the sandbox. */
  cwd: string;
  /** `fd`: records go out on descriptor 3 and earlier ones are read from descriptor 4. */
  session: { provider: 'fd' };
  /** True when an earlier job of this session left records or files. */
  resumed: boolean;
  workspace: 'existing' | 'new';
  /** Tool calls during which an earlier run died: by their effect (`auto`, the default), all again, or none. */
  redo?: 'auto' | 'always' | 'never';
  /** Files of the call's tools group: a tool process writes `0` to `procs` before it runs. */
  toolsCgroup?: { procs: string; events: string };
}

export type ParsedEvent = { ok: true; event: WorkerEvent } | { ok: false; reason: string };

const isString = (value: unknown): value is string => typeof value === 'string';
const isBoolean = (value: unknown): value is boolean => typeof value === 'boolean';
const isCount = (value: unknown): value is number =>
  typeof value === 'number' && Number.isSafeInteger(value) && value >= 0;
const optional =
  (check: (value: unknown) => boolean) =>
  (value: unknown): boolean =>
    value === undefined || check(value);
const isUsage = (value: unknown): boolean => {
  if (typeof value !== 'object' || value === null) return false;
  const usage = value as Record<string, unknown>;
  return isCount(usage.inputTokens) && isCount(usage.outputTokens) && isCount(usage.totalTokens);
};
const oneOf =
  (...values: string[]) =>
  (value: unknown): boolean =>
    isString(value) && values.includes(value);

const FIELDS: Record<WorkerEventType, Record<string, (value: unknown) => boolean>> = {
  session: {
    sessionId: isString,
    resumed: isBoolean,
    engine: isString,
    model: isString,
    handoff: optional(isBoolean),
    workspace: optional(oneOf('existing', 'new')),
  },
  token: { text: isString, reasoning: optional(isBoolean) },
  tool_call: { id: isString, name: isString, arguments: isString },
  tool_result: { id: isString, name: isString, content: isString, isError: isBoolean },
  fallback: { from: isString, to: isString, reason: isString, discard: isBoolean },
  compact: { from: isCount, to: isCount, method: oneOf('summary', 'trim') },
  done: {
    sessionId: isString,
    turns: isCount,
    usage: isUsage,
    text: isString,
    finishReason: optional(oneOf('length')),
  },
  error: { code: isString, message: isString, retryable: isBoolean },
};

/** Names that the spawner adds to every event; a program that writes one is refused. */
export const RESERVED_FIELDS = ['seq', 'ts', 'jobId', 'attempt'] as const;

/**
 * Checks one parsed line against the protocol. Unknown extra fields are allowed (the contract only grows);
 * unknown types, missing or wrong fields and reserved names are not. Never throws.
 */
export function checkEvent(value: unknown): ParsedEvent {
  if (typeof value !== 'object' || value === null || Array.isArray(value)) {
    return { ok: false, reason: 'not a JSON object' };
  }
  const object = value as Record<string, unknown>;
  const type = object.type;
  if (!isString(type) || !Object.hasOwn(FIELDS, type)) {
    return { ok: false, reason: `unknown event type ${JSON.stringify(type)?.slice(0, 40)}` };
  }
  for (const name of RESERVED_FIELDS) {
    if (Object.hasOwn(object, name)) return { ok: false, reason: `reserved field ${name}` };
  }
  for (const [name, check] of Object.entries(FIELDS[type as WorkerEventType])) {
    if (!check(object[name])) return { ok: false, reason: `${type}.${name} is missing or wrong` };
  }
  return { ok: true, event: object as unknown as WorkerEvent };
}

/** Parses and checks one line (without its LF). Never throws. */
export function parseEvent(line: string): ParsedEvent {
  let value: unknown;
  try {
    value = JSON.parse(line);
  } catch {
    return { ok: false, reason: 'not valid JSON' };
  }
  return checkEvent(value);
}
