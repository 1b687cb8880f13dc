// Part A of the cases: failing models, and what the caller, the log and the next request have of them.
import assert from 'node:assert/strict';
import { test } from 'node:test';
import {
  contentChunk,
  cut,
  httpError,
  type Reply,
  reasoningChunk,
  toolCallChunk,
} from '../../../worker/index.ts';
import { asked, type Ran, runHere, startFake, startTwo, twoModels } from '../scripted-run.ts';
import { readerText } from '../worker-process.ts';

const messageOf = (ran: Ran): string => {
  const last = ran.events.at(-1);
  return last?.type === 'error' ? last.message : '';
};

test('C020: text, reasoning or half a call of a model that broke off is in no later request, text or record', async (t) => {
  const call = toolCallChunk('bash', '{"command":"touch ra');
  for (const chunks of [
    [contentChunk('Hello wor')],
    [reasoningChunk('Hello wor')],
    [contentChunk('Hello wor'), call],
  ]) {
    const fake = await startFake(t, ({ body, step }) => {
      if (body.model === 'm1') return cut(chunks);
      return { sse: step === 1 ? [toolCallChunk('glob', { pattern: '*' })] : [contentChunk('Hello world!')] };
    });
    const ran = await runHere(t, fake.baseUrl, { models: twoModels(fake) });
    assert.equal(ran.outcome, 'Hello world!');
    assert.equal(readerText(ran.events), 'Hello world!');
    const fallback = ran.events.find((one) => one.type === 'fallback');
    assert.deepEqual(fallback, {
      type: 'fallback',
      from: 'm1',
      to: 'm2',
      reason: 'early_end',
      discard: true,
    });
    assert.ok(!fake.requests.some((request) => request.text.includes('Hello wor')));
    const answers = ran.records.filter((line) => line.type === 'assistant');
    assert.deepEqual(
      answers.map((line) => line.data.text),
      ['', 'Hello world!'],
    );
  }
});

/** A server that asks for more is not waited for, whatever it says. */
const MOST_MS = 20_000;

test('C022: every form of Retry-After, with its own wait: as said, or the ordinary one, never none', async (t) => {
  const ahead = (ms: number): string => new Date(Date.now() + ms).toUTCString();
  const rows: [string, Record<string, string>, number][] = [
    ['seconds', { 'retry-after': '1' }, 990],
    ['a date 3 s ahead', { 'retry-after': ahead(3000) }, 1500],
    ['a date in the past', { 'retry-after': ahead(-60_000) }, 450],
    ['no date', { 'retry-after': 'Sat, 32 Foo 2026' }, 450],
    ['negative', { 'retry-after': '-3' }, 450],
    ['a fraction', { 'retry-after': '1.5' }, 450],
    ['junk behind it', { 'retry-after': '120junk' }, 450],
    ['empty', { 'retry-after': '' }, 450],
    ['zero', { 'retry-after': '0' }, 450],
    ['beyond any timer', { 'retry-after': '99999999' }, 450],
    ['beyond any number', { 'retry-after': '9'.repeat(400) }, 450],
    ['a duration', { 'retry-after': 'PT5S' }, 450],
    ['none', {}, 450],
    ['a moment', { 'retry-after-ms': '1' }, 450],
    ['milliseconds', { 'retry-after-ms': '1200' }, 1190],
    ['milliseconds before seconds', { 'retry-after-ms': '700', 'retry-after': '9' }, 690],
    ['milliseconds that are none', { 'retry-after-ms': 'soon', 'retry-after': '1' }, 990],
  ];
  const check = async ([name, headers, atLeastMs]: (typeof rows)[number]): Promise<void> => {
    const limited = httpError(429, { code: 'rate_limit_exceeded' }, headers);
    const fake = await startFake(t, [limited, { sse: [contentChunk('ok')] }]);
    assert.equal((await runHere(t, fake.baseUrl)).outcome, 'ok', name);
    const [first, second] = fake.requests.map((request) => request.arrivedMs);
    const waitMs = (second ?? 0) - (first ?? 0);
    assert.ok(waitMs >= atLeastMs && waitMs <= MOST_MS, `${name}: ${waitMs} ms`);
  };
  await Promise.all(rows.map(check));
});

test('C022: a 503 with Retry-After waits as well; with another model a long wait moves on at once', async (t) => {
  const busy = await startFake(t, [
    httpError(503, {}, { 'retry-after': '1' }),
    { sse: [contentChunk('ok')] },
  ]);
  assert.equal((await runHere(t, busy.baseUrl)).outcome, 'ok');
  assert.ok((busy.requests[1]?.arrivedMs ?? 0) - (busy.requests[0]?.arrivedMs ?? 0) >= 990);
  const long = await startTwo(t, httpError(429, {}, { 'retry-after': '3600' }));
  assert.equal((await runHere(t, long.baseUrl, { models: twoModels(long) })).outcome, 'ok');
  assert.deepEqual(asked(long), ['m1', 'm2']);
});

test('C023: an exhausted quota, however it is said, costs one request and names itself; with m2 that answers', async (t) => {
  const replies: Reply[] = [
    httpError(429, { code: 'insufficient_quota', message: 'You exceeded your current quota' }),
    httpError(429, { type: 'insufficient_quota', message: 'no code' }),
    httpError(429, {
      message: 'You exceeded your current quota, please check your plan and billing details',
    }),
    httpError(429, { type: 'exceeded_current_quota_error', message: 'suspended' }),
    httpError(402, { message: 'Insufficient Balance' }),
    httpError(400, { code: 'Arrearage', message: 'Access denied, account is overdue' }),
    httpError(403, { code: 'billing_hard_limit_reached', message: 'limit' }),
  ];
  for (const reply of replies) {
    const alone = await startFake(t, [reply]);
    const begun = Date.now();
    const ran = await runHere(t, alone.baseUrl);
    assert.equal(ran.outcome, 'model_quota', JSON.stringify(reply));
    assert.ok(Date.now() - begun < 5000);
    assert.equal(alone.requests.length, 1);
    const fake = await startTwo(t, reply);
    assert.equal((await runHere(t, fake.baseUrl, { models: twoModels(fake) })).outcome, 'ok');
    assert.deepEqual(asked(fake), ['m1', 'm2']);
  }
});

test('C025: when all models fail, the error lists each with its own status', async (t) => {
  const statuses: Record<string, number> = { a: 402, b: 401, c: 500 };
  const fake = await startFake(t, ({ body }) => httpError(statuses[body.model] ?? 404));
  const models = [...Object.keys(statuses), 'd'].map((id) => ({ id, baseUrl: fake.baseUrl }));
  const nobody = { id: 'e', baseUrl: 'http://127.0.0.1:9/v1' };
  const ran = await runHere(t, fake.baseUrl, { models: [...models, nobody] });
  assert.match(messageOf(ran), /a: 402.*b: 401.*c: 500.*d: 404.*e: .*ECONNREFUSED/);
  // One budget for all: each once, then three more for those that may come back.
  assert.deepEqual(asked(fake), ['a', 'b', 'c', 'd', 'c', 'c']);
});

test('C025: a plain 400 is neither repeated nor tried on another model', async (t) => {
  for (const status of [400, 422]) {
    const fake = await startTwo(t, httpError(status, { message: 'unknown parameter' }));
    assert.equal((await runHere(t, fake.baseUrl, { models: twoModels(fake) })).outcome, 'model_bad_request');
    assert.deepEqual(asked(fake), ['m1']);
  }
});

test('one call that fails costs four requests in all, not four times four', async (t) => {
  const fake = await startFake(t, [httpError(500)]);
  assert.equal((await runHere(t, fake.baseUrl)).outcome, 'model_server');
  assert.equal(fake.requests.length, 4);
});
