// Refuses requests that a picky provider would refuse: pairing of calls and results, roles, well-formed text. Pure.

type Json = Record<string, unknown>;
const isObject = (value: unknown): value is Json =>
  typeof value === 'object' && value !== null && !Array.isArray(value);

const LONE_SURROGATE = /[\uD800-\uDBFF](?![\uDC00-\uDFFF])|(?<![\uD800-\uDBFF])[\uDC00-\uDFFF]/;

function hasLoneSurrogate(value: unknown): boolean {
  if (typeof value === 'string') return LONE_SURROGATE.test(value);
  if (Array.isArray(value)) return value.some(hasLoneSurrogate);
  return (
    isObject(value) &&
    Object.entries(value).some(([name, one]) => LONE_SURROGATE.test(name) || hasLoneSurrogate(one))
  );
}

function isJsonObject(text: unknown): boolean {
  if (typeof text !== 'string') return false;
  try {
    return isObject(JSON.parse(text));
  } catch {
    return false;
  }
}

const partTypes = (content: unknown): unknown[] =>
  Array.isArray(content) ? content.map((part) => (isObject(part) ? part.type : null)) : [];

function checkAssistant(message: Json, at: string): { problems: string[]; ids: string[] } {
  const problems: string[] = [];
  const ids: string[] = [];
  const calls = Array.isArray(message.tool_calls) ? message.tool_calls : [];
  const { content } = message;
  const empty =
    content === undefined || content === null || content === '' || partTypes(content).length === 0;
  if (calls.length === 0 && empty && typeof content !== 'string') problems.push(`${at} is empty`);
  if (calls.length === 0 && content === '') problems.push(`${at} is empty`);
  for (const call of calls) {
    if (!isObject(call) || typeof call.id !== 'string' || !isObject(call.function)) {
      problems.push(`${at} has a call without id or function`);
      continue;
    }
    if (ids.includes(call.id)) problems.push(`${at} has two calls ${call.id}`);
    ids.push(call.id);
    if (!isJsonObject(call.function.arguments))
      problems.push(`${at}: arguments of ${call.id} are no JSON object`);
    if (typeof call.function.name !== 'string' || call.function.name === '')
      problems.push(`${at}: ${call.id} has no name`);
  }
  return { problems, ids };
}

function checkTool(message: Json, at: string, open: string[]): string[] {
  const problems: string[] = [];
  const id = String(message.tool_call_id);
  const position = open.indexOf(id);
  if (position === -1) problems.push(`${at} answers ${id}, which no call of the block before it has open`);
  else open.splice(position, 1);
  const textOnly =
    typeof message.content === 'string' || partTypes(message.content).every((type) => type === 'text');
  if (!textOnly || message.content === undefined || message.content === null)
    problems.push(`${at} is not text`);
  return problems;
}

/** The rules that the body breaks, each as a sentence; empty when it breaks none. */
export function findProblems(body: unknown): string[] {
  if (!isObject(body)) return ['the body is no JSON object'];
  const problems: string[] = hasLoneSurrogate(body) ? ['the body holds a lone surrogate'] : [];
  if (typeof body.model !== 'string') problems.push('model is missing');
  if (!Array.isArray(body.messages) || body.messages.length === 0)
    return [...problems, 'messages are missing'];
  let open: string[] = [];
  for (const [index, message] of body.messages.entries()) {
    const at = `messages[${index}]`;
    if (!isObject(message)) {
      problems.push(`${at} is no object`);
      continue;
    }
    if (message.role === 'tool') {
      problems.push(...checkTool(message, at, open));
      continue;
    }
    for (const id of open) problems.push(`call ${id} has no answer before ${at}`);
    open = [];
    if (message.role !== 'user' && partTypes(message.content).some((type) => type === 'image_url')) {
      problems.push(`${at}: an image outside a user message`);
    }
    if (message.role === 'assistant') {
      const checked = checkAssistant(message, at);
      problems.push(...checked.problems);
      open = checked.ids;
    } else if (message.role !== 'user' && message.role !== 'system' && message.role !== 'developer') {
      problems.push(`${at} has the role ${String(message.role)}`);
    }
  }
  for (const id of open) problems.push(`call ${id} has no answer`);
  return problems;
}
