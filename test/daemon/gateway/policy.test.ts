// What a model request may contain, and what else is refused at the gateway's door.
import assert from 'node:assert/strict';
import { connect } from 'node:net';
import { test } from 'node:test';
import fc from 'fast-check';
import { checkRequest } from '../../../daemon/gateway/policy.ts';
import { DEFAULT_LIMITS } from '../../../daemon/gateway/types.ts';
import { ask, chat, openGateway } from '../../support/gateway.ts';
import { DONE, startUpstream, streamed } from '../../support/upstream.ts';

const check = (body: unknown, limits = {}) =>
  checkRequest(Buffer.from(typeof body === 'string' ? body : JSON.stringify(body)), ['m-1'], {
    ...DEFAULT_LIMITS,
    ...limits,
  });
const passes = (body: unknown, limits = {}) => {
  const checked = check(body, limits);
  assert.ok(checked.ok, JSON.stringify(checked));
  return JSON.parse(checked.request.body.toString());
};
const user = (content: unknown) => chat({ messages: [{ role: 'user', content }] });

test('only the job’s models pass, however the name is smuggled', () => {
  for (const model of [
    'm-2',
    'M-1',
    'm-1 ',
    ' m-1',
    'm-1:online',
    '',
    null,
    7,
    ['m-1'],
    { id: 'm-1' },
    undefined,
  ]) {
    const checked = check(chat({ model }));
    assert.equal(!checked.ok && checked.refusal.status, 403, JSON.stringify(model));
    assert.equal(!checked.ok && checked.refusal.code, 'model_not_allowed');
  }
  const twice = passes('{"model":"evil","messages":[],"model":"m-1"}');
  assert.equal(twice.model, 'm-1');
  const last = check('{"model":"m-1","messages":[],"model":"evil"}');
  assert.equal(!last.ok && last.refusal.status, 403);
});

test('members that name other models, reach the network or multiply the cost are refused by name', () => {
  const bad = [
    'models',
    'route',
    'provider',
    'plugins',
    'web_search_options',
    'fallbacks',
    'extra_body',
    'store',
    'metadata',
    'service_tier',
    'api_key',
    'base_url',
    '__proto__',
    'constructor',
    'best_of',
  ];
  for (const name of bad) {
    const checked = check(`{"model":"m-1","messages":[],${JSON.stringify(name)}:{}}`);
    assert.equal(!checked.ok && checked.refusal.status, 400, name);
    assert.equal(!checked.ok && checked.refusal.param, name);
  }
  for (const body of [
    chat({ n: 2 }),
    chat({ n: '1' }),
    chat({ stream: 'true' }),
    chat({ messages: 'x' }),
    chat({ messages: [1] }),
    [],
    'null',
    '"x"',
    '{',
    '',
  ]) {
    const checked = check(body);
    assert.equal(!checked.ok && checked.refusal.status, 400, JSON.stringify(body));
  }
});

test('pictures pass as data URIs and never as addresses; tools pass only when the caller runs them', () => {
  passes(
    user([
      { type: 'text', text: 'see' },
      { type: 'image_url', image_url: { url: 'data:image/png;base64,aaaa' } },
    ]),
  );
  passes(user('http://example.com/ as text is fine'));
  passes(
    chat({ tools: [{ type: 'function', function: { name: 'bash', parameters: {} } }], tool_choice: 'auto' }),
  );
  const bad = [
    user([{ type: 'image_url', image_url: { url: 'https://evil.example/?q=secret' } }]),
    user([{ type: 'image_url', image_url: 'http://evil.example' }]),
    user([{ type: 'image_url', image_url: { url: ['data:'] } }]),
    user([{ type: 'image_url' }]),
    user([{ type: 'file', file: { file_id: 'x' } }]),
    user([{ type: 'video_url', video_url: { url: 'https://evil.example' } }]),
    user([{ type: 'image', source: { type: 'url', url: 'https://evil.example' } }]),
    user(['text']),
    chat({ tools: [{ type: 'web_search' }] }),
    chat({ tools: [{ type: 'mcp', server_url: 'https://evil.example' }] }),
    chat({ tools: {} }),
  ];
  for (const body of bad) {
    const checked = check(body);
    assert.equal(!checked.ok && checked.refusal.status, 400, JSON.stringify(body));
  }
});

test('the length of the answer is lowered to the cap and reserved', () => {
  assert.equal(passes(chat({ max_tokens: 500 }), { outputTokens: 100 }).max_tokens, 100);
  assert.equal(passes(chat({ max_tokens: 50 }), { outputTokens: 100 }).max_tokens, 50);
  assert.equal(
    passes(chat({ max_completion_tokens: 500 }), { outputTokens: 100 }).max_completion_tokens,
    100,
  );
  assert.equal(passes(chat(), { outputTokens: 100 }).max_tokens, 100);
  const named = passes(chat({ max_tokens: null }), {
    outputTokens: 9,
    outputMember: 'max_completion_tokens',
  });
  assert.deepEqual([named.max_tokens, named.max_completion_tokens], [undefined, 9]);
  assert.equal(passes(chat()).max_tokens, undefined);
  for (const max_tokens of [0, -1, 1.5, '5', 1e300, true])
    assert.ok(!check(chat({ max_tokens })).ok, String(max_tokens));
  const both = check(chat({ max_tokens: 7, max_completion_tokens: 900 }), { outputTokens: 100 });
  assert.equal(both.ok && both.request.reservation.outputTokens, 100);
});

test('a stream always asks for its usage, whatever was asked', () => {
  for (const stream_options of [
    undefined,
    null,
    {},
    { include_usage: false },
    { include_usage: 0, x: 1 },
    'no',
  ]) {
    assert.equal(passes(chat({ stream: true, stream_options })).stream_options.include_usage, true);
  }
  assert.equal(passes(chat({ stream: false })).stream_options, undefined);
});

test('a picture does not count its base64 as text', () => {
  const url = `data:image/png;base64,${'a'.repeat(400_000)}`;
  const checked = check(user([{ type: 'image_url', image_url: { url } }]));
  assert.ok(checked.ok && checked.request.reservation.inputTokens < 2_000);
});

test('no input whatever makes the check throw, and what passes keeps its messages', () => {
  fc.assert(
    fc.property(fc.anything(), fc.jsonValue(), (noise, value) => {
      check(
        JSON.stringify({ ...chat(), ...(typeof noise === 'object' ? noise : {}) }, (_k, v) =>
          typeof v === 'bigint' ? 1 : v,
        ),
      );
      const body = passes(chat({ messages: [{ role: 'tool', content: 'x', value }] }));
      assert.deepEqual(body.messages[0].value, JSON.parse(JSON.stringify(value)));
    }),
  );
  assert.ok(!check(`${'['.repeat(200_000)}`).ok);
  const deep = `{"model":"m-1","messages":[{"x":${'['.repeat(50_000)}${']'.repeat(50_000)}}]}`;
  check(deep);
});

test('no other path, method or form of address gets through', async (t) => {
  const upstream = await startUpstream(t, streamed(DONE));
  const { socketPath, metrics } = await openGateway(t, upstream.baseUrl);
  const { port } = new URL(upstream.baseUrl);
  const lines = [
    'POST /v1/completions',
    'POST /v1/embeddings',
    'POST /v1/chat/completions/',
    'POST /v1/chat/completions?x=1',
    'POST //v1/chat/completions',
    'POST /v1/../v1/chat/completions',
    'POST /v1/chat%2fcompletions',
    'POST /V1/chat/completions',
    'GET /v1/chat/completions',
    'PUT /v1/chat/completions',
    'DELETE /v1/models',
    'HEAD /v1/models',
    'GET /v1/models/',
    'GET /',
    `POST http://127.0.0.1:${port}/v1/chat/completions`,
    'POST http://evil.example/v1/chat/completions',
    'OPTIONS *',
    `CONNECT 127.0.0.1:${port}`,
    'TRACE /v1/models',
  ];
  const body = JSON.stringify(chat());
  const send = (line: string, more = '') =>
    new Promise<string>((resolve, reject) => {
      let text = '';
      const socket = connect(socketPath, () =>
        socket.write(
          `${line} HTTP/1.1\r\nHost: x\r\n${more}Connection: close\r\nContent-Type: application/json\r\nContent-Length: ${body.length}\r\n\r\n${body}`,
        ),
      );
      socket.on('data', (chunk) => {
        text += chunk;
      });
      socket.on('error', reject);
      socket.on('close', () => resolve(text));
    });
  for (const line of lines) assert.match(await send(line), /^HTTP\/1.1 (400|403|404|405) /, line);
  const upgraded = await send('GET /v1/models', 'Upgrade: websocket\r\n');
  assert.match(upgraded, /^HTTP\/1.1 (403|200) /);
  assert.match(await send('POST /v1/chat/completions', 'Expect: nothing\r\n'), /^HTTP\/1.1 417 /);
  assert.match(await send('POST /v1/chat/completions', 'Transfer-Encoding: chunked\r\n'), /^HTTP\/1.1 400 /);
  assert.equal(upstream.seen.length, 0);
  assert.match(await metrics.registry.metrics(), /gateway_requests_total\{result="refused"\} [1-9]/);
});

test('the list of models is answered here', async (t) => {
  const upstream = await startUpstream(t, streamed(DONE));
  const { socketPath } = await openGateway(t, upstream.baseUrl);
  const answer = await ask(socketPath, undefined, { method: 'GET', path: '/v1/models' });
  assert.equal(answer.status, 200);
  assert.deepEqual(
    JSON.parse(answer.text).data.map(({ id }: { id: string }) => id),
    ['m-1', 'm-2'],
  );
  assert.equal(upstream.seen.length, 0);
});
