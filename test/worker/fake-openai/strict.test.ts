import assert from 'node:assert/strict';
import { test } from 'node:test';
import { findProblems } from '../../../worker/fake-openai/strict.ts';
import { contentChunk, startFakeOpenAI } from '../../../worker/index.ts';

const user = { role: 'user', content: 'hi' };
const call = (id: string, args: unknown = '{}'): unknown => ({
  id,
  type: 'function',
  function: { name: 'glob', arguments: args },
});
const assistant = (...calls: unknown[]): unknown => ({ role: 'assistant', content: null, tool_calls: calls });
const result = (id: string, content: unknown = 'out'): unknown => ({
  role: 'tool',
  tool_call_id: id,
  content,
});
const image = { type: 'image_url', image_url: { url: 'data:image/png;base64,AA==' } };
const problems = (...messages: unknown[]): string[] => findProblems({ model: 'm', messages });

test('a conversation with parallel calls, their results and an image of the user passes', () => {
  const good = [
    { role: 'system', content: 'be good' },
    user,
    assistant(call('a'), call('b', '{"path":"北🌍"}')),
    result('b'),
    result('a', [{ type: 'text', text: 'part' }]),
    { role: 'user', content: [{ type: 'text', text: 'see' }, image] },
    { role: 'assistant', content: 'done' },
    user,
    // Ids may come again in another answer.
    assistant(call('a')),
    result('a'),
  ];
  assert.deepEqual(problems(...good), []);
});

test('each rule is broken by its own requests, and names the place', () => {
  const table: [string, RegExp, unknown[]][] = [
    ['1: half a pair in a text', /lone surrogate/, [{ role: 'user', content: 'a\ud83c' }]],
    ['1: half a pair in a name', /lone surrogate/, [{ ...user, '\udc00': 1 }]],
    ['2: no result', /call a has no answer/, [user, assistant(call('a'))]],
    ['2: one of two results', /call b has no answer/, [user, assistant(call('a'), call('b')), result('a')]],
    [
      '2: a result behind a user message',
      /call a has no answer before/,
      [assistant(call('a')), user, result('a')],
    ],
    ['2: two results of one call', /no call .* has open/, [assistant(call('a')), result('a'), result('a')]],
    [
      '2: an answer before the results',
      /call a has no answer before/,
      [assistant(call('a')), assistant(call('b')), result('b')],
    ],
    ['3: a result without a call', /no call .* has open/, [user, result('a')]],
    [
      '3: a result of an older answer',
      /no call .* has open/,
      [assistant(call('a')), result('a'), user, result('a')],
    ],
    ['4: arguments that do not parse', /arguments of a/, [assistant(call('a', '{"pa')), result('a')]],
    ['4: arguments that are no object', /arguments of a/, [assistant(call('a', '[1]')), result('a')]],
    ['4: arguments as an object', /arguments of a/, [assistant(call('a', {})), result('a')]],
    ['4: empty arguments', /arguments of a/, [assistant(call('a', '')), result('a')]],
    ['5: an image as a result', /not text/, [assistant(call('a')), result('a', [image])]],
    ['5: no content of a result', /not text/, [assistant(call('a')), result('a', null)]],
    ['5: an image of the system', /outside a user message/, [{ role: 'system', content: [image] }]],
    ['5: an image of the assistant', /outside a user message/, [{ role: 'assistant', content: [image] }]],
    [
      '6: one id twice in an answer',
      /two calls a/,
      [assistant(call('a'), call('a')), result('a'), result('a')],
    ],
    ['an empty answer', /is empty/, [user, { role: 'assistant', content: '' }]],
    ['an answer of no parts', /is empty/, [user, { role: 'assistant', content: [] }]],
    ['an unknown role', /has the role/, [{ role: 'robot', content: 'x' }]],
  ];
  for (const [name, said, messages] of table) {
    const found = problems(...messages);
    assert.ok(
      found.some((one) => said.test(one)),
      `${name}: ${JSON.stringify(found)}`,
    );
  }
  for (const body of [null, [], {}, { model: 'm' }, { model: 'm', messages: [] }])
    assert.ok(findProblems(body).length > 0, JSON.stringify(body));
});

test('the server refuses what breaks a rule before its script is asked, also bytes that are not UTF-8', async (t) => {
  let asked = 0;
  const fake = await startFakeOpenAI(() => {
    asked += 1;
    return { sse: [contentChunk('ok')] };
  });
  t.after(() => fake.stop());
  const post = async (body: string | Buffer): Promise<number> =>
    (await fetch(`${fake.baseUrl}/chat/completions`, { method: 'POST', body })).status;
  const good = JSON.stringify({ model: 'm', messages: [user], stream: true });
  assert.equal(await post('{"model":'), 400);
  assert.equal(await post(JSON.stringify({ model: 'm', messages: [result('a')] })), 400);
  assert.equal(await post(Buffer.from(good.replace('hi', 'h\xff'), 'latin1')), 400);
  assert.equal(asked, 0);
  assert.equal(await post(good), 200);
  assert.deepEqual(
    fake.requests.map((request) => [request.index, request.step, request.problems.length > 0]),
    [
      [0, 0, true],
      [1, 0, true],
      [2, 0, true],
      [3, 0, false],
    ],
  );
});
