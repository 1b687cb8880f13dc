// The official client against our fake server: what it takes for an answer is not decided by our own client.
import assert from 'node:assert/strict';
import { test } from 'node:test';
import OpenAI from 'openai';
import {
  argumentsChunk,
  contentChunk,
  cut,
  type FakeOpenAI,
  httpError,
  reasoningChunk,
  toolCallChunk,
  usageChunk,
} from '../../../worker/index.ts';
import { startFake } from '../scripted-run.ts';

const clientOf = (fake: FakeOpenAI): OpenAI =>
  new OpenAI({ apiKey: 'sk-test', baseURL: fake.baseUrl, maxRetries: 0 });
const messages = [{ role: 'user' as const, content: 'hi' }];
const tools = [
  { type: 'function' as const, function: { name: 'glob', parameters: { type: 'object', properties: {} } } },
];

test('a streamed text arrives in its pieces, with its finish and its usage', async (t) => {
  const fake = await startFake(t, [{ sse: [contentChunk('你'), contentChunk('好'), usageChunk(11, 3)] }]);
  const stream = clientOf(fake).chat.completions.stream({
    model: 'm',
    messages,
    stream_options: { include_usage: true },
  });
  const pieces: string[] = [];
  stream.on('content', (piece) => pieces.push(piece));
  const whole = await stream.finalChatCompletion();
  assert.deepEqual(pieces.join('|').replace(/^\|/, ''), '你|好');
  assert.equal(whole.choices[0]?.message.content, '你好');
  assert.equal(whole.choices[0]?.finish_reason, 'stop');
  assert.deepEqual([whole.usage?.prompt_tokens, whole.usage?.completion_tokens], [11, 3]);
  assert.equal(fake.requests[0]?.headers.authorization, 'Bearer sk-test');
});

test('usage comes only to those who ask for it', async (t) => {
  const fake = await startFake(t, [{ sse: [contentChunk('x')] }]);
  const stream = await clientOf(fake).chat.completions.create({ model: 'm', messages, stream: true });
  for await (const chunk of stream) assert.ok(chunk.choices.length === 1 && !chunk.usage);
});

test('streamed calls, whole and in pieces, are put together by the client', async (t) => {
  const fake = await startFake(t, [
    {
      sse: [
        toolCallChunk('glob', '{"pattern":', { id: 'a', index: 0 }),
        argumentsChunk('"*.ts"}', 0),
        toolCallChunk('glob', { pattern: '*.md' }, { id: 'b', index: 1 }),
      ],
    },
  ]);
  const stream = clientOf(fake).chat.completions.stream({ model: 'm', messages, tools });
  const { choices } = await stream.finalChatCompletion();
  assert.equal(choices[0]?.finish_reason, 'tool_calls');
  const calls = choices[0]?.message.tool_calls ?? [];
  assert.deepEqual(
    calls.map((call) => [call.id, call.type === 'function' ? call.function.arguments : '']),
    [
      ['a', '{"pattern":"*.ts"}'],
      ['b', '{"pattern":"*.md"}'],
    ],
  );
});

test('a request without a stream gets the same answer in one piece', async (t) => {
  const fake = await startFake(t, [
    { sse: [reasoningChunk('hm'), contentChunk('a'), contentChunk('b')] },
    { sse: [toolCallChunk('glob', '{"pa', { id: 'x' }), argumentsChunk('ttern":"*"}')] },
  ]);
  const client = clientOf(fake);
  const text = await client.chat.completions.create({ model: 'm', messages });
  assert.deepEqual([text.choices[0]?.message.content, text.choices[0]?.finish_reason], ['ab', 'stop']);
  assert.ok((text.usage?.prompt_tokens ?? 0) > 0);
  const called = await client.chat.completions.create({ model: 'm', messages, tools });
  const call = called.choices[0]?.message.tool_calls?.[0];
  assert.equal(call?.type === 'function' ? call.function.arguments : '', '{"pattern":"*"}');
  assert.equal(called.choices[0]?.finish_reason, 'tool_calls');
});

test('errors are those that the client knows, and it waits as long as the server asks', async (t) => {
  const fake = await startFake(t, [
    httpError(401, { message: 'wrong key', code: 'invalid_api_key' }),
    httpError(400, { message: 'too long', code: 'context_length_exceeded' }),
    httpError(429, { code: 'rate_limit_exceeded' }, { 'retry-after-ms': '300' }),
    { sse: [contentChunk('ok')] },
  ]);
  const create = (maxRetries: number) =>
    clientOf(fake).withOptions({ maxRetries }).chat.completions.create({ model: 'm', messages });
  await assert.rejects(create(0), (error: Error) => {
    return error instanceof OpenAI.AuthenticationError && error.code === 'invalid_api_key';
  });
  await assert.rejects(create(0), (error: Error) => {
    return error instanceof OpenAI.BadRequestError && error.code === 'context_length_exceeded';
  });
  assert.equal((await create(1)).choices[0]?.message.content, 'ok');
  const [second, third] = fake.requests.slice(2).map((request) => request.arrivedMs);
  assert.ok((third ?? 0) - (second ?? 0) >= 290);
});

test('a conversation that breaks a rule is refused, and a cut answer is an error for the client too', async (t) => {
  const fake = await startFake(t, [cut([contentChunk('half')])]);
  const orphan = { role: 'tool' as const, tool_call_id: 'a', content: 'x' };
  const client = clientOf(fake);
  await assert.rejects(client.chat.completions.create({ model: 'm', messages: [orphan] }), /STRICT/);
  await assert.rejects(client.chat.completions.stream({ model: 'm', messages }).finalChatCompletion());
});
