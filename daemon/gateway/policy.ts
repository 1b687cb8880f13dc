// What a model request may contain, as a pure function: everything that is not known to be harmless is refused, since
// unknown members can name other models, reach the network from the provider's side or multiply the cost.
import { invalidRequest, MODEL_NOT_ALLOWED, type Refusal } from './refusal.ts';
import type { GatewayLimits, TokenCount } from './types.ts';

export interface ModelRequest {
  model: string;
  stream: boolean;
  /** As it goes upstream: written anew, so that a duplicate key means the same to everyone. */
  body: Buffer;
  /** Charged when the answer brings no figure. */
  reservation: TokenCount;
}

export type Checked = { ok: true; request: ModelRequest } | { ok: false; refusal: Refusal };

type Members = Record<string, unknown>;

const ALLOWED = new Set(
  `model messages stream stream_options tools tool_choice parallel_tool_calls functions function_call temperature top_p
   top_k min_p max_tokens max_completion_tokens n stop seed presence_penalty frequency_penalty repetition_penalty
   logit_bias logprobs top_logprobs response_format reasoning_effort reasoning thinking enable_thinking thinking_budget
   chat_template_kwargs verbosity user prompt_cache_key safety_identifier`.split(/\s+/),
);
const PARTS = new Set(['text', 'image_url', 'input_audio', 'refusal', 'reasoning', 'thinking']);
const TOOL_TYPES = new Set(['function', 'custom']);
/** Reserved for an answer whose length nothing limits. */
const UNLIMITED_ANSWER_TOKENS = 16_384;
const BYTES_PER_TOKEN = 4;
const IMAGE_TOKENS = 1_000;

/** Checks and rewrites the body of one chat completion request. Never throws. */
export function checkRequest(
  raw: Buffer,
  models: readonly string[],
  limits: Pick<GatewayLimits, 'outputTokens' | 'outputMember'>,
): Checked {
  try {
    const body: unknown = JSON.parse(new TextDecoder('utf-8', { fatal: true }).decode(raw));
    if (!isMembers(body)) return refuse(invalidRequest('The body must be a JSON object.'));
    const refusal = checkMembers(body, models) ?? checkTools(body) ?? checkMessages(body);
    if (refusal !== null) return refuse(refusal);
    const answer = limitAnswer(body, limits);
    if ('status' in answer) return refuse(answer);
    return { ok: true, request: rewrite(body, answer.outputTokens) };
  } catch {
    return refuse(invalidRequest('The body is not valid JSON in UTF-8, or is nested too deeply.'));
  }
}

function checkMembers(body: Members, models: readonly string[]): Refusal | null {
  if (typeof body.model !== 'string' || !models.includes(body.model)) return MODEL_NOT_ALLOWED;
  const unknown = Object.keys(body).find((name) => !ALLOWED.has(name));
  if (unknown !== undefined) {
    const name = unknown.slice(0, 64);
    return invalidRequest(`The gateway does not pass on the member ${JSON.stringify(name)}.`, name);
  }
  if (body.stream !== undefined && body.stream !== null && typeof body.stream !== 'boolean') {
    return invalidRequest('stream must be true or false.', 'stream');
  }
  if (body.n !== undefined && body.n !== null && body.n !== 1) {
    return invalidRequest('n must be 1: one answer per request.', 'n');
  }
  return null;
}

/** Tools that the provider itself would run could reach the network. */
function checkTools({ tools }: Members): Refusal | null {
  if (tools === undefined || tools === null) return null;
  const fine =
    Array.isArray(tools) && tools.every((tool) => isMembers(tool) && TOOL_TYPES.has(String(tool.type)));
  return fine ? null : invalidRequest('tools must be functions that the caller runs.', 'tools');
}

/** A picture by address would be fetched by the provider: a way out of the sandbox. Only data URIs pass. */
function checkMessages({ messages }: Members): Refusal | null {
  if (!Array.isArray(messages)) return invalidRequest('messages must be an array.', 'messages');
  for (const message of messages) {
    if (!isMembers(message)) return invalidRequest('Each message must be an object.', 'messages');
    if (!Array.isArray(message.content)) continue;
    for (const part of message.content) {
      if (!isMembers(part) || !PARTS.has(String(part.type))) {
        return invalidRequest('A content part is of a type that the gateway does not pass on.', 'messages');
      }
      if (part.type === 'image_url' && !isDataUri(part.image_url)) {
        return invalidRequest('Send images as data URIs; addresses are not passed on.', 'messages');
      }
    }
  }
  return null;
}

function isDataUri(image: unknown): boolean {
  const url = isMembers(image) ? image.url : image;
  return typeof url === 'string' && url.startsWith('data:');
}

/** Lowers the length of the answer to the cap, in place. Gives the length that is to be reserved. */
function limitAnswer(
  body: Members,
  { outputTokens: cap, outputMember }: Pick<GatewayLimits, 'outputTokens' | 'outputMember'>,
): { outputTokens: number } | Refusal {
  let wanted: number | null = null;
  for (const name of ['max_tokens', 'max_completion_tokens']) {
    const value = body[name];
    if (value === undefined || value === null) {
      delete body[name];
      continue;
    }
    if (!Number.isSafeInteger(value) || (value as number) < 1) {
      return invalidRequest(`${name} must be a positive whole number.`, name);
    }
    const lowered = Math.min(value as number, cap ?? Number.MAX_SAFE_INTEGER);
    body[name] = lowered;
    wanted = Math.max(wanted ?? 0, lowered);
  }
  if (wanted === null && cap !== null) body[outputMember] = cap;
  return { outputTokens: wanted ?? cap ?? UNLIMITED_ANSWER_TOKENS };
}

function rewrite(body: Members, outputTokens: number): ModelRequest {
  const stream = body.stream === true;
  if (stream) {
    const options = isMembers(body.stream_options) ? body.stream_options : {};
    body.stream_options = { ...options, include_usage: true };
  }
  const bytes = Buffer.from(JSON.stringify(body));
  const images = imageSizes(body);
  const textBytes = bytes.length - images.reduce((sum, size) => sum + size, 0);
  const inputTokens = Math.ceil(textBytes / BYTES_PER_TOKEN) + images.length * IMAGE_TOKENS;
  return { model: body.model as string, stream, body: bytes, reservation: { inputTokens, outputTokens } };
}

function imageSizes({ messages }: Members): number[] {
  const parts = (messages as Members[]).flatMap(({ content }) =>
    Array.isArray(content) ? (content as Members[]) : [],
  );
  return parts
    .filter(({ type }) => type === 'image_url' || type === 'input_audio')
    .map((part) => JSON.stringify(part).length);
}

function isMembers(value: unknown): value is Members {
  return typeof value === 'object' && value !== null && !Array.isArray(value);
}

function refuse(refusal: Refusal): Checked {
  return { ok: false, refusal };
}
