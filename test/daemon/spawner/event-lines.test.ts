import assert from 'node:assert/strict';
import { test } from 'node:test';
import fc from 'fast-check';
import { createEventLines } from '../../../daemon/spawner/event-lines.ts';

const AT = Date.parse('2026-01-02T03:04:05.678Z');
const make = () => createEventLines({ jobId: 'job_a', attempt: 2 }, () => AT);
const PREFIX = '"ts":"2026-01-02T03:04:05.678Z","jobId":"job_a","attempt":2,';

function take(...lines: string[]) {
  const events = make();
  const out = events.take(Buffer.from(lines.map((line) => `${line}\n`).join('')));
  return { out: out ?? '', state: events.state };
}

test('an event gets seq, ts, job and attempt in front of its own bytes', () => {
  const { out } = take('{"type":"token","text":"a"}', '{"type":"token","text":"b \\n é","reasoning":true}');
  assert.equal(
    out,
    `{"seq":1,${PREFIX}"type":"token","text":"a"}\n{"seq":2,${PREFIX}"type":"token","text":"b \\n é","reasoning":true}\n`,
  );
});

for (const name of ['seq', 'ts', 'jobId', 'attempt']) {
  test(`a line that brings its own ${name} is refused, also when escapes hide the name`, () => {
    const hidden = `\\u${name.charCodeAt(0).toString(16).padStart(4, '0')}${name.slice(1)}`;
    const { out, state } = take(
      `{"type":"token","text":"x","${name}":1}`,
      `{"${hidden}":1,"type":"token","text":"x"}`,
    );
    assert.equal(out, '');
    assert.equal(state.rejectedLines, 2);
    assert.equal(state.firstRejection, `reserved field ${name}`);
  });
}

test('what is not one of the eight types is refused', () => {
  const bad = [
    '{"type":"end","outcome":"ok"}',
    '{"type":"job","state":"lost"}',
    '{"type":"resources"}',
    '{"type":"heartbeat"}',
    '{"type":"toString"}',
    '{"type":"__proto__"}',
    '{"type":1}',
    '{"text":"x"}',
    '[]',
    'null',
    '"token"',
    '{"type":"token"}',
    '{"type":"token","text":1}',
    '{"type":"done","sessionId":"s","turns":-1,"usage":{},"text":""}',
    '{"type":"token","text":"x"',
    'log line',
    '{"type":"token","text":"x"} trailing',
    '\ufeff{"type":"token","text":"x"}',
  ];
  const { out, state } = take(...bad);
  assert.equal(out, '');
  assert.equal(state.rejectedLines, bad.length);
  assert.equal(state.lastType, null);
});

test('a key that is named twice cannot make two readers see two events', () => {
  const lines = [
    '{"type":"end","type":"token","text":"x"}',
    '{"type":"token","text":"a","text":"b"}',
    '{"type":"token","text":"x","more":{"k":1,"k":2}}',
    '{"\\u0074ype":"end","type":"token","text":"x"}',
  ];
  const { out } = take(...lines);
  for (const line of out.trimEnd().split('\n')) {
    const value = JSON.parse(line);
    assert.equal(line.match(/"type":/g)?.length, 1, line);
    assert.equal(JSON.stringify(value), line, 'nothing is said twice');
  }
  assert.doesNotMatch(out, /"end"/);
});

test('a key twice that ends as a closing type is refused', () => {
  assert.equal(take('{"type":"token","text":"x","type":"end"}').out, '');
});

test('nesting that is too deep to write again is refused and ends nothing', () => {
  const deep = `{"type":"token","text":"x","more":${'['.repeat(200_000)}${']'.repeat(200_000)}}`;
  const { out, state } = take(deep, '{"type":"token","text":"after"}');
  assert.equal(state.rejectedLines, 1);
  assert.match(out, /"seq":1,.*"after"/);
});

test('every admitted line is one JSON line that says what the program said', () => {
  const token = fc.record({
    type: fc.constant('token'),
    text: fc.string({ unit: 'binary' }),
    extra: fc.jsonValue(),
  });
  const spaced = fc.constantFrom('', ' ', '\t', '\r');
  fc.assert(
    fc.property(token, spaced, fc.integer({ min: 0, max: 3 }), (event, space, indent) => {
      const wanted = JSON.parse(JSON.stringify(event));
      const line = JSON.stringify(event, null, indent).replaceAll('\n', '') + space;
      const { out } = take(line);
      assert.ok(out.endsWith('\n') && out.indexOf('\n') === out.length - 1);
      const { seq, ts, jobId, attempt, ...rest } = JSON.parse(out);
      assert.deepEqual({ seq, jobId, attempt }, { seq: 1, jobId: 'job_a', attempt: 2 });
      assert.equal(ts, '2026-01-02T03:04:05.678Z');
      assert.deepEqual(rest, wanted);
    }),
    { numRuns: 2000 },
  );
});

test('bytes that are not UTF-8 become U+FFFD: the spool stays readable', () => {
  const events = make();
  const line = Buffer.concat([
    Buffer.from('{"type":"token","text":"'),
    Buffer.from([0xff, 0xc3]),
    Buffer.from('"}'),
  ]);
  assert.equal(JSON.parse(String(events.take(line))).text, '\ufffd\ufffd');
});

test('the protocol state names the last event and the last error', () => {
  const { state } = take(
    '{"type":"error","code":"a","message":"first","retryable":true}',
    '{"type":"error","code":"b","message":"second","retryable":false}',
    '{"type":"token","text":"x"}',
  );
  assert.equal(state.lastType, 'token');
  assert.deepEqual(state.error, { code: 'b', message: 'second' });
});

test('after a rewind the next line follows the last one that is stored', () => {
  const events = make();
  events.take(Buffer.from('{"type":"token","text":"a"}\n'.repeat(10)));
  events.rewind(4);
  assert.match(events.own({ type: 'end' }).toString(), /^\{"seq":5,/);
});

test('what follows done is refused and counted', () => {
  const lines = make();
  const usage = { inputTokens: 0, outputTokens: 0, totalTokens: 0 };
  const done = JSON.stringify({ type: 'done', sessionId: 's', turns: 1, usage, text: '' });
  const token = '{"type":"token","text":"late"}';
  const taken = lines.take(Buffer.from([token, done, token, done].join('\n'))) ?? '';
  assert.deepEqual(
    taken
      .trim()
      .split('\n')
      .map((line) => (JSON.parse(line) as { type: string }).type),
    ['token', 'done'],
  );
  assert.deepEqual([lines.state.rejectedLines, lines.state.wentOn], [2, true]);
  assert.equal(lines.state.firstRejection, 'an event after done');
});
