// The three wire formats that the measured agents speak: how a request tells what was done, and how an answer is streamed.
// Written from the providers' public references.
import { DELTA } from './scenario.ts';

export type WireName = 'chat' | 'messages' | 'responses';

export interface ToolCall {
  id: string;
  name: string;
  arguments: string;
}

export interface Wire {
  /** Results of tools that the request carries; null: it offers no tool, so it is not the agent's own turn. */
  toolResults(body: Json): number | null;
  /** The answer as the bytes of an event stream. */
  text(deltas: number): string;
  call(call: ToolCall): string;
}

// biome-ignore lint/suspicious/noExplicitAny: requests of foreign programs
export type Json = any;

const data = (value: unknown): string => `data: ${JSON.stringify(value)}\n\n`;
const event = (value: { type: string }): string => `event: ${value.type}\n${data(value)}`;
const list = (value: unknown): Json[] => (Array.isArray(value) ? value : []);
const times = (count: number, text: string): string => text.repeat(count);

const chunk = (delta: unknown, finish: string | null = null) =>
  data({
    ...{ id: 'c', object: 'chat.completion.chunk', created: 1, model: 'fake' },
    choices: [{ index: 0, delta, finish_reason: finish }],
  });
const chatEnd = data({
  ...{ id: 'c', object: 'chat.completion.chunk', created: 1, model: 'fake', choices: [] },
  usage: { prompt_tokens: 10, completion_tokens: 10, total_tokens: 20 },
});

const chat: Wire = {
  toolResults: (body) =>
    list(body.tools).length === 0 ? null : list(body.messages).filter(({ role }) => role === 'tool').length,
  text: (deltas) =>
    `${times(deltas, chunk({ role: 'assistant', content: DELTA }))}${chunk({}, 'stop')}${chatEnd}data: [DONE]\n\n`,
  call: ({ id, name, arguments: text }) =>
    [
      chunk({
        role: 'assistant',
        tool_calls: [{ index: 0, id, type: 'function', function: { name, arguments: text } }],
      }),
      chunk({}, 'tool_calls'),
      `${chatEnd}data: [DONE]\n\n`,
    ].join(''),
};

const USAGE = { input_tokens: 10, output_tokens: 10 };
const message = event({
  type: 'message_start',
  message: {
    id: 'm',
    type: 'message',
    role: 'assistant',
    model: 'fake',
    content: [],
    stop_reason: null,
    usage: USAGE,
  },
} as { type: string });
const messageEnd = (reason: string): string =>
  event({ type: 'message_delta', delta: { stop_reason: reason, stop_sequence: null }, usage: USAGE } as {
    type: string;
  }) + event({ type: 'message_stop' });
const block = (content: unknown, deltas: string): string =>
  event({ type: 'content_block_start', index: 0, content_block: content } as { type: string }) +
  deltas +
  event({ type: 'content_block_stop', index: 0 } as { type: string });
const blockDelta = (delta: unknown) =>
  event({ type: 'content_block_delta', index: 0, delta } as { type: string });

const messages: Wire = {
  toolResults: (body) =>
    list(body.tools).length === 0
      ? null
      : list(body.messages)
          .flatMap(({ content }) => list(content))
          .filter(({ type }) => type === 'tool_result').length,
  text: (deltas) =>
    message +
    block({ type: 'text', text: '' }, times(deltas, blockDelta({ type: 'text_delta', text: DELTA }))) +
    messageEnd('end_turn'),
  call: ({ id, name, arguments: text }) =>
    message +
    block(
      { type: 'tool_use', id: `toolu_${id}`, name, input: {} },
      blockDelta({ type: 'input_json_delta', partial_json: text }),
    ) +
    messageEnd('tool_use'),
};

const created = event({ type: 'response.created', response: { id: 'r' } } as { type: string });
const completed = event({
  type: 'response.completed',
  response: {
    id: 'r',
    usage: { ...USAGE, total_tokens: 20, input_tokens_details: null, output_tokens_details: null },
  },
} as { type: string });
const item = (type: string, value: unknown): string =>
  event({ type: `response.output_item.${type}`, output_index: 0, item: value } as { type: string });
const outputText = (text: string) => ({
  ...{ type: 'message', role: 'assistant', id: 'm' },
  content: [{ type: 'output_text', text, annotations: [] }],
});
const textDelta = event({
  ...{ type: 'response.output_text.delta', item_id: 'm', output_index: 0, content_index: 0, delta: DELTA },
});

const responses: Wire = {
  toolResults: (body) =>
    list(body.tools).length === 0
      ? null
      : list(body.input).filter(({ type }) => type === 'function_call_output').length,
  text: (deltas) =>
    created +
    item('added', { ...outputText(''), content: [] }) +
    times(deltas, textDelta) +
    item('done', outputText(DELTA.repeat(deltas))) +
    completed,
  call: ({ id, name, arguments: text }) =>
    created +
    item('done', { type: 'function_call', id: `fc_${id}`, call_id: id, name, arguments: text }) +
    completed,
};

export const WIRES: Record<WireName, Wire> = { chat, messages, responses };
