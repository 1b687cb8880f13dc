// What vendors do otherwise than the API says, each as its server would send it.
import assert from 'node:assert/strict';
import { test } from 'node:test';
import {
  contentChunk,
  deltaChunk,
  finishChunk,
  httpError,
  type Reply,
  reasoningChunk,
  type Tool,
  toolCallChunk,
} from '../../../worker/index.ts';
import { asked, event, runHere, startFake, startTwo, textsOf, twoModels } from '../scripted-run.ts';

const DONE = 'data: [DONE]\n\n';
const usage = (prompt: number, completion: number) => ({
  prompt_tokens: prompt,
  completion_tokens: completion,
  total_tokens: prompt + completion,
});
const look: Tool = {
  name: 'look',
  description: 'looks',
  parameters: { type: 'object', properties: { at: { type: 'string' } } },
  effect: 'pure',
  run: async ({ at }) => ({ content: `${String(at)}: ${'word '.repeat(150)}`, isError: false }),
};

/** The reason for which `m1` was left, when `m2` then answered. */
async function reasonOf(t: Parameters<typeof startTwo>[0], reply: Reply): Promise<string> {
  const fake = await startTwo(t, reply);
  const ran = await runHere(t, fake.baseUrl, { models: twoModels(fake) });
  const fallback = ran.events.find((one) => one.type === 'fallback');
  return `${ran.outcome} ${fallback?.type === 'fallback' ? fallback.reason : 'none'} ${asked(fake).join(' ')}`;
}

test('DeepSeek: out of resources, out of balance and wrong parameters each go on in their own way', async (t) => {
  const busy = { sse: [contentChunk('ha'), finishChunk('insufficient_system_resource')] };
  assert.equal(await reasonOf(t, busy), 'ok server m1 m2');
  assert.equal(await reasonOf(t, httpError(402, { message: 'Insufficient Balance' })), 'ok quota m1 m2');
  const wrong = httpError(422, { message: 'Failed to deserialize the JSON body' });
  assert.equal(await reasonOf(t, wrong), 'model_bad_request none m1');
});

test('DeepSeek: on resume, and after old results were left out, rounds with calls keep their reasoning', async (t) => {
  let rounds = 0;
  const fake = await startFake(t, ({ body }) => {
    if (body.tools === undefined) return httpError(500);
    rounds += 1;
    if (rounds > 4) return { sse: [contentChunk('ok')] };
    return {
      sse: [
        reasoningChunk(`thought ${rounds}`),
        toolCallChunk('look', { at: `${rounds}` }, { id: `c${rounds}` }),
      ],
    };
  });
  const models = [{ id: 'deepseek', baseUrl: fake.baseUrl, inputLimit: 900 }];
  const first = await runHere(t, fake.baseUrl, { models, tools: [look] });
  assert.equal(first.outcome, 'ok');
  assert.ok(first.events.some((one) => one.type === 'compact'));
  await runHere(t, fake.baseUrl, { models, tools: [look], home: first.home, prompt: 'go on' });
  type Sent = { role: string; tool_calls?: unknown[]; reasoning_content?: string };
  const messages: Sent[] = fake.requests.at(-1)?.body.messages;
  const called = messages.filter((message) => message.tool_calls !== undefined);
  assert.ok(called.length > 0);
  for (const message of called) assert.match(message.reasoning_content ?? '', /^thought \d$/);
});

test('Qwen: a failed inspection is a filter, not a bad request, and the prefixed length error is an overflow', async (t) => {
  const filtered = httpError(400, {
    code: 'data_inspection_failed',
    message: '<400> InternalError.Algo.DataInspectionFailed: Input data may contain inappropriate content.',
  });
  assert.equal(await reasonOf(t, filtered), 'ok content_filter m1 m2');
  const long = httpError(400, {
    code: 'invalid_parameter_error',
    message: '<400> InternalError.Algo.InvalidParameter: Range of input length should be [1, 98304]',
  });
  assert.equal(await reasonOf(t, long), 'context_overflow none m1');
  const inStream: Reply = {
    raw: [event(contentChunk('a')), event({ error: { code: 'data_inspection_failed', message: 'no' } })],
  };
  assert.equal(await reasonOf(t, inStream), 'ok content_filter m1 m2');
});

test('vLLM, SGLang: usage in every chunk, the finish in the last one with text, reasoning under either name', async (t) => {
  const chunk = (delta: Record<string, unknown>, n: number, finish: string | null = null) =>
    event({ ...deltaChunk(delta, finish), usage: usage(10, n) });
  for (const field of ['reasoning', 'reasoning_content']) {
    const raw = [
      chunk({ role: 'assistant' }, 0),
      chunk({ [field]: 'hm' }, 1),
      chunk({ content: 'a' }, 2),
      chunk({ content: 'b' }, 3, 'stop'),
      DONE,
    ];
    const fake = await startFake(t, [{ raw }]);
    const ran = await runHere(t, fake.baseUrl);
    const last = ran.events.at(-1);
    assert.deepEqual([ran.outcome, textsOf(ran.events)], ['ab', ['a', 'b']]);
    assert.deepEqual(last?.type === 'done' ? last.usage : last, {
      inputTokens: 10,
      outputTokens: 3,
      totalTokens: 13,
    });
  }
});

test('vLLM, SGLang: errors whose body is not nested, as an answer and as data of a stream', async (t) => {
  const flat = (message: string, code: number) => ({
    object: 'error',
    message,
    type: 'BadRequestError',
    param: null,
    code,
  });
  const long = "This model's maximum context length is 4096 tokens. However, you requested 5000 tokens.";
  assert.equal(await reasonOf(t, { status: 400, json: flat(long, 400) }), 'context_overflow none m1');
  assert.equal(
    await reasonOf(t, { status: 404, json: flat('The model `x` does not exist.', 404) }),
    'ok unknown_model m1 m2',
  );
  assert.equal(
    await reasonOf(t, { status: 400, json: flat('bad parameter', 400) }),
    'model_bad_request none m1',
  );
  const inStream = (code: number): Reply => ({
    raw: [event(contentChunk('a')), event(flat('engine died', code)), DONE],
  });
  assert.equal(await reasonOf(t, inStream(500)), 'ok server m1 m2');
  assert.equal(await reasonOf(t, { status: 500, json: { detail: 'boom' } }), 'ok server m1 m2');
  assert.equal(await reasonOf(t, { status: 503, json: { error: 'queue is full' } }), 'ok server m1 m2');
});

test('Ollama: calls come whole, all with index 0, with ids or without', async (t) => {
  for (const ids of [
    ['a', 'b'],
    [undefined, undefined],
  ]) {
    const pieces = ['one', 'two'].map((at, index) => ({
      index: 0,
      ...(ids[index] === undefined ? {} : { id: ids[index], type: 'function' }),
      function: { name: 'look', arguments: JSON.stringify({ at }) },
    }));
    for (const chunks of [
      [deltaChunk({ tool_calls: pieces })],
      pieces.map((one) => deltaChunk({ tool_calls: [one] })),
    ]) {
      const fake = await startFake(t, [{ sse: chunks }, { sse: [contentChunk('ok')] }]);
      const ran = await runHere(t, fake.baseUrl, { tools: [look] });
      assert.equal(ran.outcome, 'ok');
      const results = ran.events.flatMap((one) =>
        one.type === 'tool_result' ? [one.content.slice(0, 4)] : [],
      );
      assert.deepEqual(results, ['one:', 'two:']);
    }
  }
});

test('Ollama: the count of a prompt that it cut in silence does not hide that the conversation grows', async (t) => {
  let rounds = 0;
  const fake = await startFake(t, ({ body }) => {
    if (body.tools === undefined) return { sse: [contentChunk('sum')] };
    rounds += 1;
    if (rounds > 12) return { sse: [contentChunk('ok')] };
    // It counts what it kept, never more than its own small window.
    const kept = Math.min(Math.ceil(JSON.stringify(body).length / 4), 500);
    return { sse: [toolCallChunk('look', { at: `${rounds}` }), { choices: [], usage: usage(kept, 5) }] };
  });
  const models = [{ id: 'm', baseUrl: fake.baseUrl, inputLimit: 2000 }];
  const ran = await runHere(t, fake.baseUrl, { models, tools: [look] });
  assert.equal(ran.outcome, 'ok');
  assert.ok(ran.events.some((one) => one.type === 'compact'));
  const longest = Math.max(...fake.requests.map((request) => request.text.length));
  assert.ok(longest / 4 < 2000, `a request of ${longest} characters`);
});

test('llama.cpp: extra timings are ignored; its overflow is one', async (t) => {
  const timings = { prompt_n: 5, predicted_ms: 1.5 };
  const raw = [
    event({ ...contentChunk('ok'), timings }),
    event({ ...finishChunk('stop'), usage: usage(5, 1), timings }),
    DONE,
  ];
  const fake = await startFake(t, [{ raw }]);
  assert.equal((await runHere(t, fake.baseUrl)).outcome, 'ok');
  const long = {
    error: {
      code: 400,
      message: 'the request exceeds the available context size, try increasing it',
      type: 'exceed_context_size_error',
      n_prompt_tokens: 9000,
      n_ctx: 4096,
    },
  };
  assert.equal(await reasonOf(t, { status: 400, json: long }), 'context_overflow none m1');
});

test('Azure: a first chunk without choices, the key in `api-key`, a version in the query, waits in milliseconds', async (t) => {
  const first = { choices: [], prompt_filter_results: [{ prompt_index: 0, content_filter_results: {} }] };
  const limited = httpError(
    429,
    { code: '429', message: 'Requests have exceeded call rate limit' },
    { 'retry-after-ms': '600' },
  );
  const fake = await startFake(t, [
    limited,
    { raw: [event(first), event(contentChunk('ok')), event(finishChunk('stop')), DONE] },
  ]);
  const baseUrl = `${fake.baseUrl.replace('/v1', '')}/openai/deployments/d?api-version=2026-10-01`;
  const models = [{ id: 'd', baseUrl, headers: { 'api-key': 'azure-key-canary' } }];
  assert.equal((await runHere(t, baseUrl, { models })).outcome, 'ok');
  const [one, two] = fake.requests;
  assert.equal(one?.path, '/openai/deployments/d/chat/completions?api-version=2026-10-01');
  assert.deepEqual([one?.headers['api-key'], one?.headers.authorization], ['azure-key-canary', undefined]);
  assert.ok((two?.arrivedMs ?? 0) - (one?.arrivedMs ?? 0) >= 590);
  const filtered = httpError(400, {
    code: 'content_filter',
    message: 'The response was filtered due to the prompt triggering',
  });
  assert.equal(await reasonOf(t, filtered), 'ok content_filter m1 m2');
});

test('OpenRouter: comments while it works, errors as data after a 200, also inside the choice', async (t) => {
  const processing = ': OPENROUTER PROCESSING\n\n';
  const good = await startFake(t, [
    { raw: [processing.repeat(3), event(contentChunk('ok')), processing, event(finishChunk('stop')), DONE] },
  ]);
  const ran = await runHere(t, good.baseUrl);
  assert.deepEqual([ran.outcome, ran.warnings], ['ok', []]);
  const stream = (chunk: unknown): Reply => ({
    raw: [processing, event(contentChunk('ha')), event(chunk), DONE],
  });
  const error = (code: number, message: string) => ({ error: { code, message } });
  const empty = { index: 0, delta: { content: '' }, finish_reason: 'error' };
  assert.equal(
    await reasonOf(t, stream({ ...error(502, 'Provider disconnected'), choices: [empty] })),
    'ok server m1 m2',
  );
  assert.equal(
    await reasonOf(t, stream({ choices: [{ ...empty, ...error(429, 'busy') }] })),
    'ok rate_limit m1 m2',
  );
  assert.equal(await reasonOf(t, stream(error(402, 'Insufficient credits'))), 'ok quota m1 m2');
  assert.equal(
    await reasonOf(t, stream(error(400, "This endpoint's maximum context length is 8192 tokens"))),
    'context_overflow none m1',
  );
});

test('Moonshot: usage inside the choice counts; Gemini wraps its errors in a list; a refusal is an answer', async (t) => {
  const inside = { choices: [{ index: 0, delta: {}, finish_reason: 'stop', usage: usage(7, 2) }] };
  const fake = await startFake(t, [{ raw: [event(contentChunk('ok')), event(inside), DONE] }]);
  const last = (await runHere(t, fake.baseUrl)).events.at(-1);
  assert.deepEqual(last?.type === 'done' ? last.usage : last, {
    inputTokens: 7,
    outputTokens: 2,
    totalTokens: 9,
  });
  const list = [
    { error: { code: 429, message: 'Resource has been exhausted', status: 'RESOURCE_EXHAUSTED' } },
  ];
  assert.equal(await reasonOf(t, { status: 429, json: list }), 'ok rate_limit m1 m2');
  const long = [
    {
      error: {
        code: 400,
        message: 'The input token count (1200000) exceeds the maximum number of tokens allowed (1048576).',
        status: 'INVALID_ARGUMENT',
      },
    },
  ];
  assert.equal(await reasonOf(t, { status: 400, json: long }), 'context_overflow none m1');
  const refusing = await startFake(t, [
    { sse: [deltaChunk({ refusal: 'I cannot ' }), deltaChunk({ refusal: 'do that' })] },
  ]);
  assert.equal((await runHere(t, refusing.baseUrl)).outcome, 'I cannot do that');
});

test('a key that a server echoes, in any form, is in no event, record or log line', async (t) => {
  const key = 'sk-CANARY+1/abc=';
  const forms = [key, encodeURIComponent(key), Buffer.from(key).toString('base64')];
  const check = async (form: string, message: string, reply: Reply): Promise<void> => {
    const fake = await startFake(t, [reply]);
    const ran = await runHere(t, fake.baseUrl, { models: [{ id: 'm', baseUrl: fake.baseUrl, apiKey: key }] });
    assert.match(ran.outcome, /^model_(auth|quota|not_api)$/);
    assert.equal(fake.requests[0]?.headers.authorization, `Bearer ${key}`);
    const written = JSON.stringify([ran.events, ran.records, ran.warnings]);
    // Not even a part of it, where a message was cut.
    for (const one of forms)
      assert.ok(!written.includes(one.slice(0, 9)), `${form} behind ${message.length}`);
  };
  for (const form of forms) {
    for (const length of [0, 205, 230, 258, 465, 490]) {
      const message = `${'x'.repeat(length)} Authorization: Bearer ${form}`;
      await check(form, message, httpError(401, { message }));
      await check(form, message, { raw: [event({ error: { code: 402, message } })] });
      await check(form, message, { headers: { 'content-type': 'text/html' }, body: `<p>${message}` });
      await check(form, message, { json: { nothing: message } });
      await check(form, message, { status: 401, json: { oops: message } });
    }
  }
});
