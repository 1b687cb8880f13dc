// Token counts as providers really send them, cut at every byte.
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { createJsonUsage, createStreamUsage } from '../../../daemon/gateway/usage.ts';
import { DONE, textChunk, usageChunk } from '../../support/upstream.ts';

const read = (text: string, size = Number.POSITIVE_INFINITY) => {
  const reader = createStreamUsage();
  const bytes = Buffer.from(text);
  for (let at = 0; at < bytes.length; at += Math.min(size, bytes.length)) {
    reader.push(bytes.subarray(at, at + Math.min(size, bytes.length)));
  }
  return reader.result();
};
const tokens = (inputTokens: number, outputTokens: number) => ({ inputTokens, outputTokens });

test('usage is found in every place where a provider puts it', () => {
  const cases: Record<string, [string, ReturnType<typeof tokens> | null]> = {
    'a last chunk': [textChunk('a') + usageChunk(5, 6) + DONE, tokens(5, 6)],
    'every chunk, the last counts': [
      usageChunk(5, 1) + usageChunk(5, 2) + usageChunk(5, 9) + DONE,
      tokens(5, 9),
    ],
    'inside the choice': [
      'data: {"choices":[{"index":0,"delta":{},"usage":{"prompt_tokens":3,"completion_tokens":4}}]}\n\n',
      tokens(3, 4),
    ],
    'reasoning only in the total': [
      'data: {"usage":{"prompt_tokens":10,"completion_tokens":5,"total_tokens":45}}\n\n',
      tokens(10, 35),
    ],
    'other names': ['data: {"usage":{"input_tokens":1,"output_tokens":2}}\n\n', tokens(1, 2)],
    'CRLF lines': [usageChunk(1, 2).replaceAll('\n', '\r\n'), tokens(1, 2)],
    'CR lines': [usageChunk(1, 2).replaceAll('\n', '\r'), tokens(1, 2)],
    'a byte order mark': [`\uFEFF${usageChunk(1, 2)}`, tokens(1, 2)],
    'no space after data': [usageChunk(1, 2).replace('data: ', 'data:'), tokens(1, 2)],
    'no newline at the end': [usageChunk(1, 2).trimEnd(), tokens(1, 2)],
    'nothing at all': [textChunk('a') + DONE, null],
    'null and junk': [
      'data: {"usage":null}\n\ndata: {"usage":{"prompt_tokens":"5"}}\n\ndata: {"usage":{\n\n',
      null,
    ],
    'negative, fractional': ['data: {"usage":{"prompt_tokens":-5,"completion_tokens":1.5}}\n\n', null],
    'text that looks like it': [
      textChunk('data: {"usage":{"prompt_tokens":999,"completion_tokens":999}}\n\n') + usageChunk(1, 2),
      tokens(1, 2),
    ],
  };
  for (const [name, [text, expected]] of Object.entries(cases)) {
    for (const size of [Number.POSITIVE_INFINITY, 1, 7, 64])
      assert.deepEqual(read(text, size), expected, `${name}, ${size}`);
  }
});

test('a whole JSON answer is read too, in pieces', () => {
  const reader = createJsonUsage();
  const bytes = Buffer.from('{"choices":[],"usage":{"prompt_tokens":8,"completion_tokens":9}}');
  for (const byte of bytes) reader.push(Buffer.from([byte]));
  assert.deepEqual(reader.result(), tokens(8, 9));
  assert.equal(createJsonUsage().result(), null);
});

test('a line of any size passes without being kept', () => {
  const reader = createStreamUsage();
  const piece = Buffer.alloc(1024 * 1024, 'x');
  const before = process.memoryUsage().arrayBuffers;
  for (let n = 0; n < 200; n += 1) reader.push(Buffer.from(piece));
  assert.ok(process.memoryUsage().arrayBuffers - before < 100 * 1024 * 1024);
  reader.push(Buffer.from(`\n${usageChunk(1, 2)}`));
  assert.deepEqual(reader.result(), tokens(1, 2));
});
