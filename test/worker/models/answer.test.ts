import assert from 'node:assert/strict';
import { test } from 'node:test';
import { type Answer, createAssembler } from '../../../worker/models/answer.ts';
import { type FailureKind, ModelError } from '../../../worker/models/errors.ts';

const chunk = (delta: unknown, finish: string | null = null): string =>
  JSON.stringify({
    id: 'c',
    object: 'chat.completion.chunk',
    choices: [{ index: 0, delta, finish_reason: finish }],
  });
const calls = (...pieces: unknown[]): string => chunk({ tool_calls: pieces });
const head = (index: number, id: string, name: string, args: string): unknown => ({
  index,
  id,
  type: 'function',
  function: { name, arguments: args },
});
const tail = (index: number, args: string): unknown => ({ index, function: { arguments: args } });

function assemble(...data: string[]): Answer {
  const assembler = createAssembler();
  for (const one of data) assembler.accept(one);
  return assembler.answer('made').answer;
}
function failure(...data: string[]): FailureKind {
  try {
    assemble(...data);
  } catch (error) {
    if (error instanceof ModelError) return error.kind;
    throw error;
  }
  throw new Error('no failure');
}
const shown = (answer: Answer): string[] =>
  answer.calls.map((call) => `${call.id} ${call.name} ${call.arguments}`);

test('C005: broken keep-alives are ignored, real damage is a malformed stream', () => {
  const noise = [': keepalive', '', '{"type":"ping"}', 'null', '42'];
  assert.equal(assemble(chunk({ content: 'a' }), ...noise, chunk({ content: 'b' }), '[DONE]').text, 'ab');
  assert.equal(failure(chunk({ content: 'a' }), '{"choices":[{"del'), 'malformed');
});

test('C007: an answer without finish or [DONE] is cut', () => {
  assert.equal(failure(chunk({ content: 'half an ans' })), 'early_end');
});

test('C010: usage counts with empty, null and missing choices', () => {
  const usage = '"usage":{"prompt_tokens":11,"completion_tokens":3,"total_tokens":14}';
  for (const last of [`{"choices":[],${usage}}`, `{"choices":null,${usage}}`, `{${usage}}`]) {
    const answer = assemble(chunk({ content: 'x' }), chunk({}, 'stop'), last, '[DONE]');
    assert.deepEqual(answer.usage, { inputTokens: 11, outputTokens: 3, totalTokens: 14 });
  }
});

test('C011: usage of one stream is cumulative: the last figure counts', () => {
  const usage = (n: number): string =>
    `{"choices":[],"usage":{"prompt_tokens":10,"completion_tokens":${n},"total_tokens":${10 + n}}}`;
  const answer = assemble(usage(1), chunk({ content: 'x' }), usage(5), chunk({}, 'stop'), usage(9));
  assert.deepEqual(answer.usage, { inputTokens: 10, outputTokens: 9, totalTokens: 19 });
});

test('usage inside the choice counts', () => {
  const last =
    '{"choices":[{"index":0,"delta":{},"finish_reason":"stop","usage":{"prompt_tokens":7,"completion_tokens":2}}]}';
  assert.deepEqual(assemble(chunk({ content: 'x' }), last).usage, {
    inputTokens: 7,
    outputTokens: 2,
    totalTokens: 9,
  });
});

test('parallel calls with rising indices, their pieces interleaved', () => {
  const answer = assemble(
    calls(head(0, 'a', 'read_file', ''), head(1, 'b', 'grep', '')),
    calls(tail(1, '{"x"')),
    calls(tail(0, '{"path":')),
    calls(tail(1, ':1}'), tail(0, '"one"}')),
    chunk({}, 'tool_calls'),
  );
  assert.deepEqual(shown(answer), ['a read_file {"path":"one"}', 'b grep {"x":1}']);
});

test('C013: two calls under the same index are two calls', () => {
  const one = head(0, 'a', 'read_file', '{"path":"one"}');
  const both = ['a read_file {"path":"one"}', 'b read_file {"path":"two"}'];
  const whole = assemble(
    calls(one),
    calls(head(0, 'b', 'read_file', '{"path":"two"}')),
    chunk({}, 'tool_calls'),
  );
  assert.deepEqual(shown(whole), both);
  const split = assemble(
    calls(one),
    calls(head(0, 'b', 'read_file', '{"path":')),
    calls(tail(1, '"two"}')),
    chunk({}, 'tool_calls'),
  );
  assert.deepEqual(shown(split), both);
});

test('C014: two entries of one delta with one index are one call', () => {
  const answer = assemble(
    calls(head(0, 'a', 'read_file', '{"pa'), tail(0, 'th":"one"}')),
    chunk({}, 'tool_calls'),
  );
  assert.deepEqual(shown(answer), ['a read_file {"path":"one"}']);
});

test('a repeated id or name does not begin a new call', () => {
  const answer = assemble(
    calls(head(0, 'a', 'read_file', '{"pa')),
    calls(head(0, 'a', 'read_file', 'th":')),
    calls({ index: 0, function: { name: 'read_file', arguments: '"one"}' } }),
    chunk({}, 'tool_calls'),
  );
  assert.deepEqual(shown(answer), ['a read_file {"path":"one"}']);
});

test('calls without ids, all with index 0, are told apart and get ids of their own', () => {
  const whole = (path: string): unknown => ({
    index: 0,
    function: { name: 'read_file', arguments: { path } },
  });
  const answer = assemble(calls(whole('one')), calls(whole('two')), chunk({}, 'stop'));
  assert.deepEqual(shown(answer), ['made_1 read_file {"path":"one"}', 'made_2 read_file {"path":"two"}']);
});

test('two calls that share an id keep the first and rename the second', () => {
  const answer = assemble(
    calls(head(0, 'same', 'grep', '{}'), head(1, 'same', 'glob', '{}')),
    chunk({}, 'tool_calls'),
  );
  assert.deepEqual(shown(answer), ['same grep {}', 'made_2 glob {}']);
});

test('reasoning is kept apart from the answer, under its own field name', () => {
  const answer = assemble(chunk({ reasoning: 'hm' }), chunk({ content: 'yes' }), chunk({}, 'stop'));
  assert.deepEqual([answer.reasoning, answer.reasoningField, answer.text], ['hm', 'reasoning', 'yes']);
});

test('an empty answer, a filtered one and an error inside the stream are failures of their kind', () => {
  assert.equal(failure(chunk({}, 'stop'), '[DONE]'), 'empty');
  assert.equal(failure(chunk({ reasoning_content: 'only thought' }), chunk({}, 'stop')), 'empty');
  assert.equal(failure(chunk({ content: 'x' }), chunk({}, 'content_filter')), 'content_filter');
  assert.equal(failure(chunk({ content: 'x' }), chunk({}, 'insufficient_system_resource')), 'server');
  assert.equal(failure('{"error":{"code":502,"message":"upstream"}}'), 'server');
  assert.equal(failure('{"error":{"code":"context_length_exceeded","message":"m"}}'), 'overflow');
});

test('C028a: a complete JSON answer is an answer', () => {
  const answer = assemble(
    '{"choices":[{"index":0,"message":{"role":"assistant","content":"whole"},"finish_reason":"stop"}]}',
  );
  assert.equal(answer.text, 'whole');
});

test('C043: a surrogate pair cut between two deltas comes out whole, half a pair as U+FFFD', () => {
  const assembler = createAssembler();
  const parts = ['a\ud83c', '\udff7b'].flatMap((text) => assembler.accept(chunk({ content: text })));
  assert.deepEqual(
    parts.map((delta) => delta.text),
    ['a', '🏷b'],
  );
  assembler.accept(chunk({ content: 'c\ud83c' }));
  assembler.accept(calls(head(0, 'a', 'bash', '{"command":"\ud83d"}')));
  assembler.accept(chunk({}, 'tool_calls'));
  const { answer, rest } = assembler.answer('made');
  assert.equal(answer.text, 'a🏷bc\uFFFD');
  assert.equal(rest[0]?.text, '\uFFFD');
  assert.equal(answer.calls[0]?.arguments, '{"command":"\uFFFD"}');
});
