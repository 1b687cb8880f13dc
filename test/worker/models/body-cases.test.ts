// Part A of the cases: answers of another form than text in a stream.
import assert from 'node:assert/strict';
import { writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { test } from 'node:test';
import {
  contentChunk,
  httpError,
  type Reply,
  reasoningChunk,
  type Tool,
  toolCallChunk,
} from '../../../worker/index.ts';
import { asked, event, runHere, startFake, startTwo, textsOf, twoModels } from '../scripted-run.ts';
import { makeFolder } from '../worker-process.ts';

test('C028: a JSON answer to a streaming request counts, with calls, and on a connection that stays open', async (t) => {
  const message = { role: 'assistant', content: 'whole', tool_calls: undefined };
  const json = {
    id: 'x',
    choices: [{ index: 0, message, finish_reason: 'stop' }],
    usage: { prompt_tokens: 5, completion_tokens: 1 },
  };
  for (const more of [{}, { hold: true }]) {
    const fake = await startFake(t, [{ json, ...more }]);
    const begun = Date.now();
    assert.equal((await runHere(t, fake.baseUrl)).outcome, 'whole');
    assert.ok(Date.now() - begun < 5000);
  }
  const call = { id: 'a', type: 'function', function: { name: 'glob', arguments: '{"pattern":"*"}' } };
  const called = {
    choices: [
      {
        index: 0,
        message: { role: 'assistant', content: null, tool_calls: [call] },
        finish_reason: 'tool_calls',
      },
    ],
  };
  const fake = await startFake(t, [{ json: called }, { json }]);
  assert.equal((await runHere(t, fake.baseUrl)).outcome, 'whole');
  assert.equal(fake.requests[1]?.body.messages.at(-1).role, 'tool');
});

test('C028: a page, nothing, another JSON and an error on an open socket fail at once, with little of them shown', async (t) => {
  const page = `<html>${'登录 '.repeat(3000)}</html>`;
  const table: [string, Reply, RegExp][] = [
    ['page', { headers: { 'content-type': 'text/html; charset=utf-8' }, body: page }, /^model_not_api$/],
    [
      'page on an open socket',
      { headers: { 'content-type': 'text/html' }, body: page, hold: true },
      /^model_not_api$/,
    ],
    ['204', { status: 204 }, /^model_not_api$/],
    ['404', { ...httpError(404, { message: 'nothing here' }), hold: true }, /^model_unknown_model$/],
    ['redirect', { status: 302, headers: { location: 'http://127.0.0.1:9/' }, body: '' }, /^model_not_api$/],
    ['other JSON', { json: { status: 'ok' } }, /^model_not_api$/],
    [
      'cut JSON',
      { headers: { 'content-type': 'application/json' }, body: '{"choices":[{' },
      /^model_not_api$/,
    ],
    ['JSON error with 200', { json: { error: { message: 'upstream', code: 502 } } }, /^model_server$/],
  ];
  const check = async ([name, reply, code]: [string, Reply, RegExp]): Promise<void> => {
    const fake = await startTwo(t, reply);
    const begun = Date.now();
    const ran = await runHere(t, fake.baseUrl, { models: twoModels(fake) });
    assert.equal(ran.outcome, 'ok', name);
    assert.ok(Date.now() - begun < 8000, name);
    const reason = ran.records.find((line) => line.type === 'fallback')?.data.reason;
    assert.match(`model_${reason}`, code, name);
    assert.equal(asked(fake).filter((id) => id === 'm1').length, 1, name);
    const shown = `${ran.warnings.join('')}`.split('登录').length - 1;
    assert.ok(shown * Buffer.byteLength('登录 ') <= 500, `${name}: ${shown} pieces of the page in the log`);
  };
  await Promise.all(table.map(check));
});

test('C028: what a body is, its first bytes say: JSON, events or a page under the type of another', async (t) => {
  const message = { role: 'assistant', content: 'whole' };
  const json = JSON.stringify({ choices: [{ index: 0, message, finish_reason: 'stop' }] });
  const events = `${event(contentChunk('streamed'))}data: [DONE]\n\n`;
  const as = (type: string, body: string): Reply => ({ headers: { 'content-type': type }, body });
  const table: [string, Reply, string][] = [
    ['JSON as events', as('text/event-stream', json), 'whole'],
    ['JSON as text', as('text/plain', `\n ${json}`), 'whole'],
    ['events as JSON', as('application/json', events), 'streamed'],
    ['events as bytes', as('application/octet-stream', events), 'streamed'],
    ['comment first, as JSON', as('application/json', `: hi\n\n${events}`), 'streamed'],
    ['page as events', as('text/event-stream', '<!DOCTYPE html><p>sign in'), 'model_not_api'],
    ['page as JSON', as('application/json', '<html>sign in'), 'model_not_api'],
    [
      'error as events',
      as('text/event-stream', '{"error":{"message":"no money","code":"insufficient_quota"}}'),
      'model_quota',
    ],
    ['nothing as JSON', as('application/json', ''), 'model_not_api'],
  ];
  for (const [name, reply, outcome] of table) {
    const fake = await startFake(t, [reply]);
    assert.equal((await runHere(t, fake.baseUrl)).outcome, outcome, name);
    assert.equal(fake.requests.length, 1, name);
  }
});

test('an empty answer moves on; alone it is asked again', async (t) => {
  const empties: Reply[] = [
    { sse: [] },
    { sse: [contentChunk('')] },
    { sse: [contentChunk(' \n')] },
    { sse: [reasoningChunk('only thought')] },
    { raw: ['data: [DONE]\n\n'] },
    { json: { choices: [{ index: 0, message: { role: 'assistant', content: '' }, finish_reason: 'stop' }] } },
  ];
  for (const reply of empties) {
    const fake = await startTwo(t, reply);
    const ran = await runHere(t, fake.baseUrl, { models: twoModels(fake) });
    assert.deepEqual([ran.outcome, asked(fake)], ['ok', ['m1', 'm2']], JSON.stringify(reply));
  }
  const alone = await startFake(t, [{ sse: [] }, { sse: [contentChunk('ok')] }]);
  assert.equal((await runHere(t, alone.baseUrl)).outcome, 'ok');
});

const think: Tool = {
  name: 'think',
  description: 'thinks',
  parameters: { type: 'object', properties: {} },
  effect: 'pure',
  run: async () => ({ content: 'thought', isError: false }),
};

test('C030: reasoning goes back on rounds with calls, under the name it came by, and is never answer text', async (t) => {
  for (const field of ['reasoning_content', 'reasoning'] as const) {
    const delta = (text: string) => ({
      choices: [{ index: 0, delta: { [field]: text }, finish_reason: null }],
    });
    const fake = await startFake(t, [
      { sse: [delta('first '), delta('thought'), toolCallChunk('think')] },
      { sse: [delta('second'), contentChunk('answer')] },
      { sse: [contentChunk('again')] },
    ]);
    const ran = await runHere(t, fake.baseUrl, { tools: [think] });
    assert.equal(ran.outcome, 'answer');
    assert.deepEqual(textsOf(ran.events), ['answer']);
    const reasoning = ran.events.flatMap((one) => (one.type === 'token' && one.reasoning ? [one.text] : []));
    assert.deepEqual(reasoning, ['first ', 'thought', 'second']);
    await runHere(t, fake.baseUrl, { tools: [think], home: ran.home });
    type Sent = { role: string; content: string | null } & Record<string, unknown>;
    const messages: Sent[] = fake.requests[2]?.body.messages;
    const sent = messages.filter((one) => one.role === 'assistant');
    assert.deepEqual(
      sent.map((one) => one[field]),
      ['first thought', undefined],
    );
    assert.ok(!sent.some((one) => String(one.content).includes('thought')));
  }
});

test('C030: reasoning of one model is not sent to another that never wrote any: it would refuse the field', async (t) => {
  const fake = await startFake(t, ({ body, step }) => {
    if (step === 0) return { sse: [reasoningChunk('deep'), toolCallChunk('think')] };
    return body.model === 'm1' ? httpError(402) : { sse: [contentChunk('ok')] };
  });
  const ran = await runHere(t, fake.baseUrl, { models: twoModels(fake), tools: [think] });
  assert.equal(ran.outcome, 'ok');
  const fields = fake.requests.map((request) => [
    request.body.model,
    request.text.includes('"reasoning_content":"deep"'),
  ]);
  assert.deepEqual(fields, [
    ['m1', false],
    ['m1', true],
    ['m2', false],
  ]);
});

test('C031: an image and a text read in parallel: two text results, then one user message with the image', async (t) => {
  const home = makeFolder(t);
  const png =
    'iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNk+M9QDwADhgGAWjR9awAAAABJRU5ErkJggg==';
  writeFileSync(join(home, 'ok.png'), Buffer.from(png, 'base64'));
  writeFileSync(join(home, 'a.txt'), 'the text');
  const calls = [
    toolCallChunk('read_image', { path: 'ok.png' }, { id: 'i', index: 0 }),
    toolCallChunk('read_file', { path: 'a.txt' }, { id: 'f', index: 1 }),
  ];
  const fake = await startFake(t, [{ sse: calls }, { sse: [contentChunk('seen')] }]);
  assert.equal((await runHere(t, fake.baseUrl, { home })).outcome, 'seen');
  const { messages } = fake.requests[1]?.body ?? {};
  assert.deepEqual(
    messages.map((one: { role: string }) => one.role),
    ['system', 'user', 'assistant', 'tool', 'tool', 'user'],
  );
  assert.deepEqual([messages[3].tool_call_id, messages[4].tool_call_id], ['i', 'f']);
  assert.ok([messages[3], messages[4]].every((one) => typeof one.content === 'string'));
  const parts = messages[5].content as { type: string; image_url?: { url: string } }[];
  assert.deepEqual(
    parts.map((part) => part.type),
    ['text', 'image_url'],
  );
  assert.equal(parts[1]?.image_url?.url, `data:image/png;base64,${png}`);
  // A server that takes no images says 400: the same body is not sent again.
  const blind = await startFake(t, [
    { sse: calls },
    httpError(400, { message: 'image_url is not supported' }),
  ]);
  assert.equal((await runHere(t, blind.baseUrl, { cwd: home })).outcome, 'model_bad_request');
  assert.equal(blind.requests.length, 2);
});
