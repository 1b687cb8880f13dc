import assert from 'node:assert/strict';
import { test } from 'node:test';
import {
  contentChunk,
  cut,
  httpError,
  type Reply,
  reset,
  type Step,
  stall,
  toolCallChunk,
} from '../../worker/index.ts';
import { doneText, errorCode, event, hello, sinceRequestMs, startFake } from './scripted-run.ts';
import { readerText, readSession, terminal } from './worker-process.ts';

test('C020: after a fallback the reader ends with the text of the second model alone, and so does the log', async (t) => {
  const fake = await startFake(t, ({ body }) =>
    body.model === 'm1' ? cut([contentChunk('Hello wor')]) : { sse: [contentChunk('Hello world!')] },
  );
  const end = await hello(t, fake, { DJINN_MODEL: 'm1', DJINN_FALLBACKS: 'm2' });
  assert.equal(doneText(end), 'Hello world!');
  assert.equal(readerText(end.events), 'Hello world!');
  assert.deepEqual(
    end.events.find((one) => one.type === 'fallback'),
    { type: 'fallback', from: 'm1', to: 'm2', reason: 'early_end', discard: true },
  );
  const answers = readSession(end.home, 's').filter((line) => line.type === 'assistant');
  assert.deepEqual(
    answers.map((line) => line.data.text),
    ['Hello world!'],
  );
});

test('C022: no form of Retry-After makes the second request come at once', async (t) => {
  const check = async (value: string, atLeastMs: number): Promise<void> => {
    const limited = httpError(429, { code: 'rate_limit_exceeded' }, { 'retry-after': value });
    const fake = await startFake(t, [limited, { sse: [contentChunk('ok')] }]);
    assert.equal(doneText(await hello(t, fake)), 'ok');
    const [first, second] = fake.requests.map((request) => request.arrivedMs);
    const waitMs = (second ?? 0) - (first ?? 0);
    assert.ok(waitMs >= atLeastMs && waitMs <= 4000, `${value}: ${waitMs} ms`);
  };
  await Promise.all([check('1', 950), check('-3', 400), check('99999999', 400), check('120junk', 400)]);
});

test('C023: an exhausted quota is asked once and named, within two seconds', async (t) => {
  const fake = await startFake(t, [
    httpError(429, { code: 'insufficient_quota', message: 'You exceeded your current quota' }),
  ]);
  const end = await hello(t, fake);
  assert.equal(errorCode(end), 'model_quota');
  assert.match(end.stdout, /insufficient_quota/);
  assert.equal(fake.requests.length, 1);
  assert.ok(sinceRequestMs(fake) < 2000);
});

test('when all models fail the error names each with its own status', async (t) => {
  const fake = await startFake(t, ({ body }) =>
    httpError(body.model === 'm1' ? 402 : 401, { message: `no ${body.model}` }),
  );
  const end = await hello(t, fake, { DJINN_MODEL: 'm1', DJINN_FALLBACKS: 'm2' });
  const last = terminal(end.events);
  assert.match(last.type === 'error' ? last.message : '', /m1: 402.*m2: 401/);
});

test('a bad request is not repeated and not tried on another model', async (t) => {
  const fake = await startFake(t, [httpError(400, { message: 'unknown parameter' })]);
  assert.equal(errorCode(await hello(t, fake, { DJINN_FALLBACKS: 'm2' })), 'model_bad_request');
  assert.equal(fake.requests.length, 1);
});

test('C026: comments do not keep a stalled stream alive, nor does silence before or after the head', async (t) => {
  const warm: Step[] = Array.from({ length: 30 }, (_, n) => (n % 2 === 0 ? { pauseMs: 200 } : ': ka\n\n'));
  const replies: Reply[] = [
    { raw: [event(contentChunk('a')), ...warm], hold: true },
    { raw: [event(contentChunk('a'))], hold: true },
    stall(),
  ];
  const check = async (reply: Reply): Promise<void> => {
    const fake = await startFake(t, ({ body }) =>
      body.model === 'm1' ? reply : { sse: [contentChunk('ok')] },
    );
    const end = await hello(t, fake, {
      DJINN_IDLE_TIMEOUT_MS: '700',
      DJINN_MODEL: 'm1',
      DJINN_FALLBACKS: 'm2',
    });
    assert.equal(doneText(end), 'ok');
    const fallback = end.events.find((one) => one.type === 'fallback');
    assert.equal(fallback?.type === 'fallback' ? fallback.reason : '', 'stall');
    assert.ok(sinceRequestMs(fake) < 4000);
  };
  await Promise.all(replies.map(check));
});

test('C028: a JSON answer counts; a page, nothing and an error on an open socket fail at once', async (t) => {
  const message = { role: 'assistant', content: 'whole' };
  const whole = await startFake(t, [{ json: { choices: [{ index: 0, message, finish_reason: 'stop' }] } }]);
  assert.equal(doneText(await hello(t, whole)), 'whole');
  const page = `<html>${'x'.repeat(5000)}</html>`;
  const replies: Reply[] = [
    { headers: { 'content-type': 'text/html' }, body: page },
    { status: 204 },
    { ...httpError(404, { message: 'nothing here' }), hold: true },
  ];
  const check = async (reply: Reply): Promise<void> => {
    const fake = await startFake(t, [reply]);
    const end = await hello(t, fake);
    assert.match(errorCode(end), /^model_(not_api|unknown_model)$/);
    assert.ok(sinceRequestMs(fake) < 2500 && end.stderr.length < 2000);
    assert.equal(fake.requests.length, 1);
  };
  await Promise.all(replies.map(check));
});

test('a reset before the answer is tried again on the same model', async (t) => {
  const fake = await startFake(t, [reset(), { sse: [contentChunk('ok')] }]);
  const end = await hello(t, fake);
  assert.equal(doneText(end), 'ok');
  assert.equal(fake.requests.length, 2);
});

test('the key goes to the model and nowhere else', async (t) => {
  const key = 'sk-test-canary-key';
  const fake = await startFake(t, ({ index, headers }) =>
    index === 0
      ? { sse: [toolCallChunk('bash', { command: 'env' })] }
      : httpError(401, { message: `Incorrect API key provided: ${headers.authorization}` }),
  );
  const end = await hello(t, fake);
  assert.equal(fake.requests[0]?.headers.authorization, `Bearer ${key}`);
  assert.equal(errorCode(end), 'model_auth');
  assert.ok(!`${end.stdout}${end.stderr}${JSON.stringify(readSession(end.home, 's'))}`.includes(key));
});
