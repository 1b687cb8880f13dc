import assert from 'node:assert/strict';
import { test } from 'node:test';
import { contentChunk, finishChunk, type Reply, type Step, toolCallChunk } from '../../worker/index.ts';
import { doneText, errorCode, event, hello, sinceRequestMs, startFake } from './scripted-run.ts';
import {
  makeFolder,
  readerText,
  readSession,
  startWorker,
  terminal,
  type WorkerEnd,
} from './worker-process.ts';

const DONE = 'data: [DONE]\n\n';
const tokens = (end: WorkerEnd): string[] =>
  end.events.flatMap((one) => (one.type === 'token' ? [one.text] : []));
const warnings = (end: WorkerEnd): string[] =>
  end.stderr.split('\n').filter((line) => /"level":"(warn|error)"/.test(line));

test('C001: one byte per write, the text is whole everywhere', async (t) => {
  const bytes = Buffer.from(event(contentChunk('北🌍“')) + event(finishChunk('stop')) + DONE);
  const raw: Step[] = [...bytes].map((byte) => Buffer.from([byte]));
  const end = await hello(t, await startFake(t, [{ raw }]));
  assert.equal(doneText(end), '北🌍“');
  const stored = JSON.stringify(readSession(end.home, 's'));
  assert.ok(stored.includes('北🌍“') && !`${stored}${end.stdout}`.includes('\uFFFD'));
});

test('C002: a CRLF cut between two writes; each delta arrives before the stream closes', async (t) => {
  const line = (text: string): string => event(contentChunk(text)).replace(/\n/g, '\r\n');
  const raw: Step[] = ['a', 'b', 'c'].flatMap((text) => [line(text).slice(0, -1), { pauseMs: 50 }, '\n']);
  const fake = await startFake(t, [{ raw: [...raw, { pauseMs: 300 }, event(finishChunk('stop')), DONE] }]);
  const home = makeFolder(t);
  const worker = startWorker(t, ['-p', 'hello'], { baseUrl: fake.baseUrl, home });
  await worker.seen((one) => one.type === 'token' && one.text === 'a');
  assert.ok(!worker.stdout().includes('"done"'));
  const end = await worker.ended;
  assert.deepEqual(tokens(end), ['a', 'b', 'c']);
});

test('C004: comments and ids between events bring no event and no warning', async (t) => {
  const raw = [
    ': OPENROUTER PROCESSING\n\n'.repeat(3),
    event(contentChunk('a')),
    'id: 1\n: ping\n\n',
    ': ping\n\n',
    event(contentChunk('b')),
    event(finishChunk('stop')),
    DONE,
  ];
  const end = await hello(t, await startFake(t, [{ raw }]));
  assert.deepEqual([doneText(end), tokens(end), warnings(end)], ['ab', ['a', 'b'], []]);
});

test('C005: a damaged event fails the attempt with its own kind', async (t) => {
  const end = await hello(
    t,
    await startFake(t, [{ raw: [event(contentChunk('a')), 'data: {"choices":[{"del\n\n'] }]),
  );
  assert.equal(errorCode(end), 'model_malformed');
});

test('C007: however the body ends, without a finish it is a failed attempt and never stored', async (t) => {
  const head = 'HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\ntransfer-encoding: chunked\r\n\r\n';
  const half = event(contentChunk('half an ans'));
  const framed = `${half.length.toString(16)}\r\n${half}\r\n`;
  const endings: Step[][] = [
    [head + framed, { pauseMs: 20 }, '0\r\n\r\n'],
    [head + framed, { pauseMs: 20 }, { cut: 'reset' }],
    [head + framed, { pauseMs: 20 }, 'ff\r\ndata: {"ch'],
  ];
  const check = async (wire: Step[]): Promise<void> => {
    const end = await hello(t, await startFake(t, [{ wire }]));
    assert.match(errorCode(end), /^model_(early_end|network)$/);
    assert.ok(!readSession(end.home, 's').some((line) => line.type === 'assistant'));
    assert.equal(readerText(end.events.slice(0, -1).filter((one) => one.type !== 'token')), '');
  };
  await Promise.all(endings.map(check));
});

test('usage is summed over the requests of a run, not over the figures of one stream', async (t) => {
  const usage = (n: number): unknown => ({
    choices: [],
    usage: { prompt_tokens: 10, completion_tokens: n, total_tokens: 10 + n },
  });
  const stream = (first: unknown, reason: string): Reply => ({
    raw: [usage(1), first, usage(5), finishChunk(reason), usage(9)].map(event).concat(DONE),
  });
  const fake = await startFake(t, [
    stream(toolCallChunk('glob', { pattern: '*' }), 'tool_calls'),
    stream(contentChunk('ok'), 'stop'),
  ]);
  const last = terminal((await hello(t, fake)).events);
  assert.deepEqual(last.type === 'done' ? [last.turns, last.usage] : last, [
    2,
    { inputTokens: 20, outputTokens: 18, totalTokens: 38 },
  ]);
});

test('C016: empty arguments are no arguments, and a missing one is an error result', async (t) => {
  const seen: string[] = [];
  const fake = await startFake(t, ({ index, body }) => {
    for (const message of body.messages) {
      for (const call of message.tool_calls ?? []) seen.push(call.function.arguments);
    }
    return { sse: index === 0 ? [toolCallChunk('read_file', '')] : [contentChunk('ok')] };
  });
  const end = await hello(t, fake);
  assert.equal(doneText(end), 'ok');
  const result = end.events.find((one) => one.type === 'tool_result');
  assert.ok(
    result?.type === 'tool_result' && result.isError && result.content.includes('path'),
    JSON.stringify(result),
  );
  assert.deepEqual(seen, ['{}']);
});

test('arguments that do not parse are an error result, never run, and the history stays valid', async (t) => {
  const fake = await startFake(t, [
    { sse: [toolCallChunk('bash', '{"command":"touch ran"')] },
    { sse: [contentChunk('ok')] },
  ]);
  const end = await hello(t, fake);
  assert.equal(doneText(end), 'ok');
  const result = end.events.find((one) => one.type === 'tool_result');
  assert.ok(result?.type === 'tool_result' && result.isError && result.content.includes('not valid JSON'));
  assert.ok(!readSession(end.home, 's').some((line) => line.type === 'tool_started'));
});

test('no tool runs from an answer that was cut by length', async (t) => {
  const fake = await startFake(t, [
    { sse: [toolCallChunk('bash', { command: 'touch ran' }), finishChunk('length')] },
    { sse: [contentChunk('ok')] },
  ]);
  const end = await hello(t, fake);
  assert.equal(doneText(end), 'ok');
  assert.ok(!readSession(end.home, 's').some((line) => line.type === 'tool_started'));
});

test('C019: calls are run whatever the finish says', async (t) => {
  for (const reason of ['stop', 'end_turn']) {
    const fake = await startFake(t, [
      { sse: [toolCallChunk('glob', { pattern: '*' }), finishChunk(reason)] },
      { sse: [contentChunk('ok')] },
    ]);
    const end = await hello(t, fake);
    assert.equal(doneText(end), 'ok');
    assert.equal(fake.requests[1]?.body.messages.at(-1).role, 'tool');
  }
});

test('a finished answer whose server sends neither [DONE] nor an end is taken after a moment', async (t) => {
  const fake = await startFake(t, [
    { raw: [event(contentChunk('all')), event(finishChunk('stop'))], hold: true },
  ]);
  assert.equal(doneText(await hello(t, fake)), 'all');
  assert.ok(sinceRequestMs(fake) < 4000);
});

test('C030: reasoning is streamed as such, sent back on rounds with calls, and never part of the answer', async (t) => {
  const reasoning = { choices: [{ index: 0, delta: { reasoning_content: 'think' }, finish_reason: null }] };
  const fake = await startFake(t, [
    { sse: [reasoning, toolCallChunk('glob', { pattern: '*' })] },
    { sse: [reasoning, contentChunk('ok')] },
  ]);
  const end = await hello(t, fake);
  assert.equal(doneText(end), 'ok');
  assert.equal(end.events.filter((one) => one.type === 'token' && one.reasoning === true).length, 2);
  assert.equal(
    fake.requests[1]?.body.messages.find((m: { role: string }) => m.role === 'assistant').reasoning_content,
    'think',
  );
});

test('the model is reached over a unix socket, and the connection is used again', async (t) => {
  const home = makeFolder(t);
  const fake = await startFake(
    t,
    [{ sse: [toolCallChunk('glob', { pattern: '*' })] }, { sse: [contentChunk('ok')] }],
    {
      socketPath: `${home}/model.sock`,
    },
  );
  assert.match(fake.baseUrl, /^unix:/);
  assert.equal(doneText(await hello(t, fake)), 'ok');
});
