// Part A of the cases: what a stream may look like on the wire, from the bytes of the server to the session log.
import assert from 'node:assert/strict';
import { type TestContext, test } from 'node:test';
import { contentChunk, finishChunk, type Reply, type Step, toolCallChunk } from '../../../worker/index.ts';
import { event, type Ran, runHere, startFake, textsOf } from '../scripted-run.ts';

const DONE = 'data: [DONE]\n\n';
const STOP = event(finishChunk('stop')) + DONE;

/** One answer made of raw bytes, to one prompt. */
async function hear(t: TestContext, raw: readonly Step[], more: Partial<Reply> = {}): Promise<Ran> {
  const fake = await startFake(t, [{ raw, ...more }]);
  return runHere(t, fake.baseUrl);
}

test('C001: a cut at any byte of an event leaves no character damaged, in the events or in the log', async (t) => {
  const bytes = Buffer.from(event(contentChunk('北🌍“')));
  const offsets = Array.from({ length: bytes.length - 1 }, (_, index) => index + 1);
  const fake = await startFake(t, ({ step }) => {
    const at = offsets[step] ?? 0;
    return { raw: [bytes.subarray(0, at), { pauseMs: 2 }, bytes.subarray(at), STOP] };
  });
  for (const offset of offsets) {
    const ran = await runHere(t, fake.baseUrl);
    assert.deepEqual([...ran.outcome], ['北', '🌍', '“'], `cut at ${offset}`);
    assert.ok(!JSON.stringify([ran.events, ran.records]).includes('\uFFFD'));
  }
});

test('C002: LF, CRLF, CR and a CRLF cut in two: three deltas each, the first before the last write', async (t) => {
  const lines = (end: string): Step[] =>
    ['a', 'b', 'c'].flatMap((text) => [event(contentChunk(text)).replace(/\n/g, end), { pauseMs: 50 }]);
  const cutLines = ['a', 'b', 'c'].flatMap((text): Step[] => {
    const [line, blank] = [event(contentChunk(text)).trimEnd(), '\r\n'];
    return [`${line}\r`, { pauseMs: 50 }, `\n${blank.slice(0, 1)}`, { pauseMs: 50 }, '\n'];
  });
  const check = async (name: string, steps: Step[], end: string): Promise<void> => {
    let writtenMs = 0;
    const fake = await startFake(t, () => {
      setTimeout(() => (writtenMs = Date.now()), 400).unref();
      return { raw: [...steps, { pauseMs: 500 }, STOP.replace(/\n/g, end)] };
    });
    let firstMs = 0;
    const ran = await runHere(t, fake.baseUrl, {
      onEvent: (one) => {
        if (one.type === 'token' && firstMs === 0) firstMs = Date.now();
      },
    });
    assert.deepEqual([textsOf(ran.events), ran.outcome], [['a', 'b', 'c'], 'abc'], name);
    assert.ok(firstMs > 0 && firstMs < writtenMs, `${name}: deltas come in one lump`);
  };
  await Promise.all([
    check('LF', lines('\n'), '\n'),
    check('CRLF', lines('\r\n'), '\r\n'),
    check('CR', lines('\r'), '\r'),
    check('CR | LF', cutLines, '\r\n'),
  ]);
});

test('a BOM, several data lines and a field without its space are read by the rules of SSE', async (t) => {
  const chunk = JSON.stringify(contentChunk('ab'));
  const at = chunk.indexOf(',') + 1;
  const lines = `\uFEFFevent: message\ndata:${chunk.slice(0, at)}\ndata: ${chunk.slice(at)}\nretry: 5\n\n`;
  assert.equal((await hear(t, [lines, STOP])).outcome, 'ab');
});

test('an event of several megabytes is one delta, and one without an end is refused', async (t) => {
  const long = 'x'.repeat(3 * 1024 * 1024);
  const ran = await hear(t, [event(contentChunk(long)), STOP]);
  assert.deepEqual([ran.outcome.length, textsOf(ran.events).length], [long.length, 1]);
  const endless = await startFake(t, [{ raw: ['data: ', ...Array(20).fill('y'.repeat(1024 * 1024))] }]);
  const ended = await runHere(t, endless.baseUrl);
  assert.equal(ended.outcome, 'model_malformed');
});

test('C004: keep-alive comments, ids and a blank line behind an id bring no event and no warning', async (t) => {
  const ran = await hear(t, [
    ': OPENROUTER PROCESSING\n\n'.repeat(3),
    event(contentChunk('a')),
    `id: 1\n${event(contentChunk('b'))}`,
    ': ping\n\n',
    'id: 2\n\n',
    STOP,
  ]);
  assert.deepEqual([ran.outcome, textsOf(ran.events), ran.warnings], ['ab', ['a', 'b'], []]);
});

test('C005: keep-alives that come as data are ignored, in every form that was seen', async (t) => {
  const noise = [
    'data: : keepalive',
    'data:',
    'data: {"type":"ping"}',
    'data: ping',
    'data: [PING]',
    'data: null',
  ];
  for (const one of noise) {
    const ran = await hear(t, [event(contentChunk('a')), `${one}\n\n`, event(contentChunk('b')), STOP]);
    assert.deepEqual([ran.outcome, textsOf(ran.events)], ['ab', ['a', 'b']], one);
    assert.ok(ran.warnings.length <= 1, one);
  }
});

test('C005: real damage is a malformed stream: a head, a tail or a middle that is gone', async (t) => {
  const check = async (damage: string): Promise<void> => {
    const ran = await hear(t, [event(contentChunk('a')), `data: ${damage}\n\n`, STOP]);
    assert.equal(ran.outcome, 'model_malformed', damage);
    assert.ok(!ran.records.some((line) => line.type === 'assistant'));
  };
  const damages = ['{"choices":[{"del', 'ta":{"content":"x"}}]}', '"choices":[{"index":0}', '{"choices":[}'];
  await Promise.all(damages.map(check));
});

test('C007: a body that ends politely, is torn, or is closed inside a chunk is an answer that ended early', async (t) => {
  const head = 'HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\ntransfer-encoding: chunked\r\n\r\n';
  const half = event(contentChunk('half an ans'));
  const framed = `${Buffer.byteLength(half).toString(16)}\r\n${half}\r\n`;
  const table: [string, Step[]][] = [
    ['terminator', [head + framed, { pauseMs: 20 }, '0\r\n\r\n']],
    ['reset', [head + framed, { pauseMs: 20 }, { cut: 'reset' }]],
    ['FIN between chunks', [head + framed, { pauseMs: 20 }, { cut: 'fin' }]],
    ['FIN inside a chunk', [head + framed, { pauseMs: 20 }, 'ff\r\ndata: {"ch', { cut: 'fin' }]],
  ];
  const check = async ([name, wire]: [string, Step[]]): Promise<void> => {
    const fake = await startFake(t, [{ wire }]);
    const ran = await runHere(t, fake.baseUrl);
    const last = ran.events.at(-1);
    assert.equal(ran.outcome, 'model_early_end', name);
    assert.match(last?.type === 'error' ? last.message : '', /stream ended (early|before)/, name);
    assert.ok(!ran.records.some((line) => line.type === 'assistant'), name);
    assert.equal(fake.requests.length, 4, name);
    // No request holds the half answer.
    assert.ok(!fake.requests.some((request) => request.text.includes('half an ans')), name);
  };
  await Promise.all(table.map(check));
});

test('an answer that only [DONE] or only a finish ends is whole; the connection need not close', async (t) => {
  assert.equal((await hear(t, [event(contentChunk('a')), DONE])).outcome, 'a');
  assert.equal((await hear(t, [event(contentChunk('a')), event(finishChunk('stop'))])).outcome, 'a');
  assert.equal((await hear(t, [event(contentChunk('a')), DONE], { hold: true })).outcome, 'a');
  // What comes after [DONE] belongs to nothing.
  assert.equal((await hear(t, [event(contentChunk('a')), STOP, event(contentChunk('b'))])).outcome, 'a');
});

test('C010: usage counts in a chunk with empty, null or missing choices', async (t) => {
  const usage = '"usage":{"prompt_tokens":11,"completion_tokens":3,"total_tokens":14}';
  for (const chunk of [`{"choices":[],${usage}}`, `{"choices":null,${usage}}`, `{${usage}}`]) {
    const ran = await hear(t, [
      event(contentChunk('x')),
      event(finishChunk('stop')),
      `data: ${chunk}\n\n`,
      DONE,
    ]);
    const last = ran.events.at(-1);
    const recorded = ran.records.find((line) => line.type === 'assistant')?.data.usage;
    const expected = { inputTokens: 11, outputTokens: 3, totalTokens: 14 };
    assert.deepEqual(last?.type === 'done' ? last.usage : last, expected, chunk);
    assert.deepEqual(recorded, expected, chunk);
  }
});

test('C011: cumulative usage counts once per stream, and is summed over the two requests of a job', async (t) => {
  const usage = (n: number): string =>
    event({ choices: [], usage: { prompt_tokens: 10, completion_tokens: n, total_tokens: 10 + n } });
  const stream = (first: unknown, reason: string): Reply => ({
    raw: [usage(1), event(first), usage(5), event(finishChunk(reason)), usage(9), DONE],
  });
  const one = await startFake(t, [stream(contentChunk('ok'), 'stop')]);
  const two = await startFake(t, [
    stream(toolCallChunk('glob', { pattern: '*' }), 'tool_calls'),
    stream(contentChunk('ok'), 'stop'),
  ]);
  for (const [fake, times] of [
    [one, 1],
    [two, 2],
  ] as const) {
    const last = (await runHere(t, fake.baseUrl)).events.at(-1);
    assert.deepEqual(last?.type === 'done' ? last.usage : last, {
      inputTokens: 10 * times,
      outputTokens: 9 * times,
      totalTokens: 19 * times,
    });
  }
});
