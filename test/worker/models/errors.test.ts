import assert from 'node:assert/strict';
import { test } from 'node:test';
import { classifyResponse, type FailureKind, parseRetryAfter } from '../../../worker/models/errors.ts';

const kind = (status: number, body: unknown): FailureKind =>
  classifyResponse(status, typeof body === 'string' ? body : JSON.stringify(body), undefined).kind;
const nested = (message: string, code: string | null = null): unknown => ({
  error: { message, type: 't', code },
});

test('each status and code means its own way of going on', () => {
  const table: [number, unknown, FailureKind][] = [
    [429, nested('slow down', 'rate_limit_exceeded'), 'rate_limit'],
    [429, nested('You exceeded your current quota', 'insufficient_quota'), 'quota'],
    [429, nested('too many tokens per minute'), 'rate_limit'],
    [402, nested('Insufficient Balance'), 'quota'],
    [401, nested('Incorrect API key'), 'auth'],
    [403, 'forbidden', 'auth'],
    [404, nested('no such route'), 'unknown_model'],
    [400, nested('The model `x` does not exist', 'model_not_found'), 'unknown_model'],
    [400, nested('bad parameter'), 'bad_request'],
    [422, nested('bad parameter'), 'bad_request'],
    [500, 'oops', 'server'],
    [503, '', 'server'],
    [529, nested('overloaded'), 'server'],
    [408, '', 'server'],
    [302, '', 'not_api'],
    [400, nested('x', 'data_inspection_failed'), 'content_filter'],
    [402, nested('the monthly budget is spent', 'budget'), 'budget'],
  ];
  for (const [status, body, expected] of table)
    assert.equal(kind(status, body), expected, `${status} ${JSON.stringify(body)}`);
});

test('overflow is recognised however it is said, and throttling is not overflow', () => {
  const said = [
    'prompt is too long: 210000 tokens > 200000 maximum',
    'This model exceeds the context window',
    "This model's maximum context length is 65536 tokens",
    'The input token count (1200000) exceeds the maximum number of tokens allowed',
    'maximum prompt length is 131072',
    'Please reduce the length of the messages',
    'exceeds the limit of 128000',
    'the request exceeds the available context size',
    'exceed_context_size_error',
    'prompt is greater than the context length',
    'context window exceeds limit',
    'Your request exceeded model token limit: 8192',
    'too large for model with 4096 maximum context length',
    'model_context_window_exceeded',
    'prompt too long; exceeded max context length by 12 tokens',
    '<400> InternalError.Algo.InvalidParameter: Range of input length should be [1, 98304]',
  ];
  for (const message of said) assert.equal(kind(400, nested(message)), 'overflow', message);
  assert.equal(kind(400, { object: 'error', message: said[2], code: 400 }), 'overflow');
  assert.equal(kind(413, nested('request_too_large')), 'overflow');
  assert.equal(kind(400, ''), 'overflow');
  assert.equal(kind(413, ''), 'overflow');
  assert.equal(
    kind(400, nested('rate limit: too many tokens per minute, reduce the length of the messages')),
    'rate_limit',
  );
  assert.equal(kind(401, nested('maximum context length is 5')), 'auth');
});

test('C022: only exact forms of Retry-After are a figure', () => {
  const now = Date.parse('Mon, 30 Nov 2026 10:00:00 GMT');
  const at = (value: string): number | undefined => parseRetryAfter({ 'retry-after': value }, now);
  assert.equal(at('1'), 1000);
  assert.equal(at('Mon, 30 Nov 2026 10:00:03 GMT'), 3000);
  // The two old forms of a date, which a recipient must take.
  assert.equal(at('Monday, 30-Nov-26 10:00:03 GMT'), 3000);
  assert.equal(at('Mon Nov 30 10:00:03 2026'), 3000);
  for (const value of [
    'Mon, 30 Nov 2026 09:59:00 GMT',
    'Sat, 32 Foo 2026',
    '-3',
    '1.5',
    '120junk',
    '-2099',
    '2099-01-01',
    'Jan 1 2099',
    '1 Jan 2099 00:00:00 GMT',
    '',
    '0',
  ]) {
    assert.equal(at(value), undefined, value);
  }
  assert.equal(at('99999999'), 99999999000);
  assert.equal(parseRetryAfter({ 'retry-after-ms': '250', 'retry-after': '9' }, now), 250);
});
