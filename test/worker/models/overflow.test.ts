// A context that is too long: however it is said, and when nobody says it.
import assert from 'node:assert/strict';
import { type TestContext, test } from 'node:test';
import {
  contentChunk,
  finishChunk,
  httpError,
  type Reply,
  reasoningChunk,
  type Tool,
  toolCallChunk,
  usageChunk,
} from '../../../worker/index.ts';
import { asked, event, type Ran, runHere, startFake, startTwo, twoModels } from '../scripted-run.ts';

const look: Tool = {
  name: 'look',
  description: 'looks',
  parameters: { type: 'object', properties: {} },
  effect: 'pure',
  run: async () => ({ content: 'word '.repeat(300), isError: false }),
};

/** Three rounds, then once the given reply, then ok. Summaries are answered. */
async function runInto(
  t: TestContext,
  reply: Reply,
  inputLimit?: number,
): Promise<Ran & { models: string[] }> {
  let turns = 0;
  const fake = await startFake(t, ({ body }) => {
    if (body.tools === undefined) return { sse: [contentChunk('what was done so far')] };
    turns += 1;
    if (turns <= 3) return { sse: [contentChunk('step'), toolCallChunk('look'), usageChunk(50 * turns, 5)] };
    return turns === 4 ? reply : { sse: [contentChunk('ok'), usageChunk(60, 5)] };
  });
  const models = twoModels(fake).map((entry) =>
    inputLimit === undefined ? entry : { ...entry, inputLimit },
  );
  const ran = await runHere(t, fake.baseUrl, { models, tools: [look] });
  return { ...ran, models: [...new Set(asked(fake))] };
}

function assertCompacted(ran: Ran & { models: string[] }, told: string): void {
  assert.deepEqual([ran.outcome, ran.models], ['ok', ['m1']], told);
  const kinds = ran.events.flatMap((one) => {
    if (one.type === 'compact') return one.to < one.from ? ['compact'] : ['grew'];
    return one.type === 'fallback' ? [`${one.from}>${one.to} ${one.reason} ${one.discard}`] : [];
  });
  assert.deepEqual(kinds, ['compact', 'm1>m1 overflow true'], told);
}

const SAID = [
  'prompt is too long: 210000 tokens > 200000 maximum',
  'Your input exceeds the context window of this model. Please adjust your input and try again.',
  "This model's maximum context length is 65536 tokens. However, you requested 70000 tokens",
  'The input token count (1200000) exceeds the maximum number of tokens allowed (1048576).',
  "This model's maximum prompt length is 131072 but the request contains 537812 tokens.",
  'Please reduce the length of the messages or completion.',
  'prompt token count of 135000 exceeds the limit of 128000',
  'the request exceeds the available context size, try increasing it',
  'Input is greater than the context length of this model',
  'invalid params, context window exceeds limit',
  'Invalid request: Your request exceeded model token limit: 8192',
  'Prompt contains 9000 tokens, too large for model with 4096 maximum context length',
  'prompt too long; exceeded max context length by 12 tokens',
  '<400> InternalError.Algo.InvalidParameter: Range of input length should be [1, 98304]',
];
const CODES = [
  'context_length_exceeded',
  'exceed_context_size_error',
  'model_context_window_exceeded',
  'request_too_large',
];

test('each way in which providers say it compacts and asks the same model again', async (t) => {
  for (const message of SAID) {
    assertCompacted(await runInto(t, httpError(400, { message })), message);
    assertCompacted(await runInto(t, { status: 400, body: message.toUpperCase() }), `plain: ${message}`);
    assertCompacted(await runInto(t, { raw: [event({ error: { message } })] }), `in the stream: ${message}`);
  }
  for (const code of CODES) {
    assertCompacted(await runInto(t, httpError(400, { code, message: 'no' })), code);
    assertCompacted(await runInto(t, httpError(413, { type: code, message: 'no' })), `${code} as type`);
  }
  assertCompacted(await runInto(t, { status: 413, body: '' }), '413 without a body');
  assertCompacted(await runInto(t, { status: 400, body: '' }), '400 without a body');
  assertCompacted(
    await runInto(t, { sse: [contentChunk('ha'), finishChunk('model_context_window_exceeded')] }),
    'as a finish',
  );
});

test('what only sounds like it is none: throttling is tried again, other limits end the run', async (t) => {
  const throttled: [number, string][] = [
    [429, 'Too many tokens, please wait before trying again'],
    [400, 'rate limit: too many tokens per minute, please reduce the length of the messages'],
    [413, 'Request too large for model `x` on tokens per minute (TPM): Limit 6000, Requested 9000'],
    [400, 'ThrottlingException: Too many tokens, the prompt is too long for now'],
  ];
  for (const [status, message] of throttled) {
    const fake = await startTwo(t, httpError(status, { message }));
    const ran = await runHere(t, fake.baseUrl, { models: twoModels(fake) });
    assert.deepEqual([ran.outcome, asked(fake)], ['ok', ['m1', 'm2']], message);
    assert.equal(ran.records.find((line) => line.type === 'fallback')?.data.reason, 'rate_limit', message);
  }
  for (const message of [
    'max_tokens of 99999 exceeds the limit of 8192',
    'image size exceeds the limit of 5 MB',
    'too many tools: 200 tools exceeds the limit of 128',
  ]) {
    const fake = await startTwo(t, httpError(400, { message }));
    assert.equal(
      (await runHere(t, fake.baseUrl, { models: twoModels(fake) })).outcome,
      'model_bad_request',
      message,
    );
  }
  const auth = await startTwo(t, httpError(401, { message: 'maximum context length is 5' }));
  assert.equal((await runHere(t, auth.baseUrl, { models: twoModels(auth) })).outcome, 'ok');
});

test('silent overflows: a prompt above the window, and an answer cut where the window ends, with text or without', async (t) => {
  const limit = 3000;
  const silent: [string, Reply][] = [
    ['above', { sse: [contentChunk('nonsense'), usageChunk(limit + 1, 5)] }],
    ['cut', { sse: [contentChunk('half of'), finishChunk('length'), usageChunk(2900, 90)] }],
    ['cut while it thought', { sse: [reasoningChunk('hm'), finishChunk('length'), usageChunk(2900, 90)] }],
  ];
  for (const [name, reply] of silent) {
    const ran = await runInto(t, reply, limit);
    assertCompacted(ran, name);
    assert.ok(
      !ran.records.some((line) => line.type === 'assistant' && /nonsense|half/.test(line.data.text)),
      name,
    );
  }
  // The output limit of the model is another thing: the answer is what it is.
  const cut = await runInto(
    t,
    { sse: [contentChunk('half of'), finishChunk('length'), usageChunk(1500, 90)] },
    limit,
  );
  const last = cut.events.at(-1);
  assert.deepEqual([cut.outcome, last?.type === 'done' && last.finishReason], ['half of', 'length']);
});

test('a fallback with a smaller window gets a conversation that fits it, and is not asked before', async (t) => {
  const sizes: number[] = [];
  let turns = 0;
  const fake = await startFake(t, ({ body, text }) => {
    if (body.tools === undefined) return { sse: [contentChunk('sum')] };
    turns += 1;
    if (body.model === 'm2') sizes.push(text.length);
    if (body.model === 'm2') return { sse: [contentChunk('small ok')] };
    return turns <= 4 ? { sse: [toolCallChunk('look')] } : httpError(503);
  });
  const [m1, m2] = twoModels(fake) as [{ id: string; baseUrl: string }, { id: string; baseUrl: string }];
  const ran = await runHere(t, fake.baseUrl, { models: [m1, { ...m2, inputLimit: 1000 }], tools: [look] });
  assert.equal(ran.outcome, 'small ok');
  assert.equal(ran.events.filter((one) => one.type === 'compact').length, 1);
  assert.deepEqual([sizes.length, (sizes[0] ?? 0) * 0.3 < 1000], [1, true]);
});

test('compactions bring no new retries: one budget holds for the whole turn', async (t) => {
  let turns = 0;
  const fake = await startFake(t, ({ body }) => {
    if (body.tools === undefined) return { sse: [contentChunk('sum')] };
    turns += 1;
    if (turns <= 3) return { sse: [toolCallChunk('look')] };
    // A fault, an overflow, and so on: each overflow is followed by another try.
    return turns % 2 === 0 ? httpError(500) : httpError(400, { code: 'context_length_exceeded' });
  });
  const ran = await runHere(t, fake.baseUrl, { tools: [look] });
  assert.match(ran.outcome, /^(context_overflow|model_server)$/);
  assert.ok(turns <= 3 + 1 + 3 + 2, `${turns - 3} requests in one turn`);
});
