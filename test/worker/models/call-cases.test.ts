// Part A of the cases: tool calls as streams bring them, from the bytes of the server to the results in the history.
import assert from 'node:assert/strict';
import { writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { type TestContext, test } from 'node:test';
import {
  contentChunk,
  deltaChunk,
  finishChunk,
  type Reply,
  type Tool,
  toolCallChunk,
} from '../../../worker/index.ts';
import { readFileTool } from '../../../worker/tools/read-file.ts';
import { event, runHere, startFake } from '../scripted-run.ts';
import { makeFolder } from '../worker-process.ts';

const DONE = 'data: [DONE]\n\n';

type Piece = Record<string, unknown>;
type Message = { role: string; content: string; tool_calls?: { function: { arguments: string } }[] };
const piece = (index: number | undefined, id: string | undefined, args: string, name?: string): Piece => ({
  ...(index === undefined ? {} : { index }),
  ...(id === undefined ? {} : { id, type: 'function' }),
  function: { ...(name === undefined ? {} : { name }), arguments: args },
});
const callChunk = (...pieces: Piece[]): string => event(deltaChunk({ tool_calls: pieces }));

/** What the two files of a workspace said to the calls of one answer: results by path, and the calls of the history. */
async function readBoth(t: TestContext, events: string[]): Promise<[string[], string[]]> {
  const home = makeFolder(t);
  writeFileSync(join(home, 'one'), 'first');
  writeFileSync(join(home, 'two'), 'second');
  const fake = await startFake(t, [
    { raw: [...events, event(finishChunk('tool_calls')), DONE] },
    { sse: [contentChunk('ok')] },
  ]);
  const ran = await runHere(t, fake.baseUrl, { home });
  assert.equal(ran.outcome, 'ok');
  const messages: Message[] = fake.requests[1]?.body.messages;
  const results = messages
    .filter((one) => one.role === 'tool')
    .map((one) => /first|second/.exec(one.content)?.[0] ?? one.content);
  const calls = messages.flatMap((one) => one.tool_calls ?? []).map((call) => call.function.arguments);
  return [results, calls];
}
const BOTH = [
  ['first', 'second'],
  ['{"path":"one"}', '{"path":"two"}'],
];

test('parallel calls are told apart: by index, interleaved, in one delta, without any index', async (t) => {
  const [one, two] = ['{"path":"one"}', '{"path":"two"}'];
  const table: string[][] = [
    [callChunk(piece(0, 'a', one, 'read_file')), callChunk(piece(1, 'b', two, 'read_file'))],
    [
      callChunk(piece(0, 'a', '', 'read_file'), piece(1, 'b', '{"pa', 'read_file')),
      callChunk(piece(0, undefined, '{"path":')),
      callChunk(piece(1, undefined, 'th":"two"}'), piece(0, undefined, '"one"}')),
    ],
    [callChunk(piece(undefined, 'a', one, 'read_file'), piece(undefined, 'b', two, 'read_file'))],
    [callChunk(piece(3, 'a', one, 'read_file')), callChunk(piece(7, 'b', two, 'read_file'))],
  ];
  for (const events of table) assert.deepEqual(await readBoth(t, events), BOTH);
});

test('C013: two calls under the same index are two calls, also when the tail comes under another index', async (t) => {
  const whole = callChunk(piece(0, 'a', '{"path":"one"}', 'read_file'));
  const table: string[][] = [
    [whole, callChunk(piece(0, 'b', '{"path":"two"}', 'read_file'))],
    [whole, callChunk(piece(0, 'b', '{"path":', 'read_file')), callChunk(piece(1, undefined, '"two"}'))],
    [whole, callChunk(piece(0, 'b', '', 'read_file')), callChunk(piece(0, undefined, '{"path":"two"}'))],
    [whole, callChunk(piece(0, 'b', '{"path":', 'read_file')), callChunk(piece(0, 'b', '"two"}'))],
  ];
  for (const events of table) assert.deepEqual(await readBoth(t, events), BOTH);
});

test('C014: two entries of one delta under one index are one call', async (t) => {
  const events = [callChunk(piece(0, 'a', '{"pa', 'read_file'), piece(0, undefined, 'th":"one"}'))];
  assert.deepEqual(await readBoth(t, events), [['first'], ['{"path":"one"}']]);
});

test('an id or a name that comes late, twice or in every piece does not make a second call', async (t) => {
  const table: string[][] = [
    [callChunk(piece(0, undefined, '', 'read_file')), callChunk(piece(0, 'a', '{"path":"one"}'))],
    [callChunk(piece(0, 'a', '{"pa', 'read_file')), callChunk(piece(0, 'a', 'th":"one"}', 'read_file'))],
    [callChunk(piece(0, 'a', '{"pa', 'read_file')), callChunk(piece(0, '', 'th":"one"}', ''))],
  ];
  for (const events of table) assert.deepEqual(await readBoth(t, events), [['first'], ['{"path":"one"}']]);
});

test('C016: empty arguments run a tool with optional parameters as {}, and name the field that another one misses', async (t) => {
  const seen: unknown[] = [];
  const optional: Tool = {
    name: 'status',
    description: 'tells how it goes',
    parameters: { type: 'object', properties: { verbose: { type: 'boolean' } } },
    effect: 'pure',
    run: async (args) => {
      seen.push(args);
      return { content: 'all well', isError: false };
    },
  };
  for (const empty of ['', ' ', '{}']) {
    const fake = await startFake(t, [
      { sse: [toolCallChunk('status', empty)] },
      { sse: [toolCallChunk('read_file', empty, { id: 'r' })] },
      { sse: [contentChunk('ok')] },
    ]);
    const ran = await runHere(t, fake.baseUrl, { tools: [optional, readFileTool] });
    assert.equal(ran.outcome, 'ok');
    const results = ran.events.filter((one) => one.type === 'tool_result');
    assert.deepEqual(
      results.map((one) => one.isError),
      [false, true],
    );
    assert.match(results[1]?.content ?? '', /path/);
    const calls = fake.requests[2]?.body.messages.flatMap(
      (one: { tool_calls?: unknown[] }) => one.tool_calls ?? [],
    );
    assert.deepEqual(
      calls.map((call: { function: { arguments: string } }) => JSON.parse(call.function.arguments)),
      [{}, {}],
    );
  }
  assert.deepEqual(seen, [{}, {}, {}]);
});

test('arguments that do not parse, or are no object, are never run and answered by what is wrong', async (t) => {
  for (const args of ['{"path":"one"', "{'path':'one'}", '["one"]', '"one"', 'null', '{"path":"one"}}']) {
    const [results, calls] = await readBoth(t, [callChunk(piece(0, 'a', args, 'read_file'))]);
    assert.match(results[0] ?? '', /arguments are not/, args);
    assert.deepEqual(calls, ['{}'], args);
  }
});

test('C019: calls are run whatever the finish says, or when only [DONE] ends the answer', async (t) => {
  for (const finish of ['stop', 'end_turn', 'tool_calls', 'function_call', 'eos', '']) {
    const end = finish === '' ? DONE : event(finishChunk(finish)) + DONE;
    const fake = await startFake(t, [
      { raw: [callChunk(piece(0, 'a', '{"pattern":"*"}', 'glob')), end] },
      { sse: [contentChunk('ok')] },
    ]);
    assert.equal((await runHere(t, fake.baseUrl)).outcome, 'ok', finish);
    assert.equal(fake.requests[1]?.body.messages.at(-1).role, 'tool', finish);
  }
});

test('no tool runs from an answer that was cut by length, and three of them in a row end the run', async (t) => {
  const cut: Reply = { sse: [toolCallChunk('bash', { command: 'touch ran' }), finishChunk('length')] };
  const once = await startFake(t, [cut, { sse: [contentChunk('ok')] }]);
  const ran = await runHere(t, once.baseUrl);
  assert.equal(ran.outcome, 'ok');
  assert.ok(!ran.records.some((line) => line.type === 'tool_started'));
  const always = await startFake(t, [cut]);
  assert.equal((await runHere(t, always.baseUrl)).outcome, 'model_bad_request');
  assert.equal(always.requests.length, 3);
});
