import assert from 'node:assert/strict';
import { test } from 'node:test';
import fc from 'fast-check';
import { createFramer } from '../../../daemon/spawner/frame.ts';

/** Feeds the chunks and returns what came out: complete lines, and the rest. */
function frame(
  chunks: Buffer[],
  maxLineBytes = 1000,
): { lines: Buffer; rest: Buffer | null; dropped: number } {
  const framer = createFramer(maxLineBytes);
  const blocks: Buffer[] = [];
  for (const chunk of chunks) {
    const block = framer.push(chunk);
    if (block !== null) blocks.push(Buffer.from(block));
  }
  const rest = framer.flush();
  return { lines: Buffer.concat(blocks), rest, dropped: framer.dropped };
}

/** What a stream of these bytes has to give. */
function expected(
  bytes: Buffer,
  maxLineBytes: number,
): { lines: Buffer; rest: Buffer | null; dropped: number } {
  const lines: Buffer[] = [];
  let dropped = 0;
  let at = 0;
  for (let end = bytes.indexOf(10); end >= 0; end = bytes.indexOf(10, at)) {
    if (end + 1 - at > maxLineBytes) dropped += 1;
    else lines.push(bytes.subarray(at, end + 1));
    at = end + 1;
  }
  let rest: Buffer | null = bytes.subarray(at);
  if (rest.length >= maxLineBytes) dropped += 1;
  if (rest.length === 0 || rest.length >= maxLineBytes) rest = null;
  return { lines: Buffer.concat(lines), rest, dropped };
}

const text = Buffer.from('{"a":"é\u2028"}\n\n{"b":"\u0000"}\r\n{"c":"last, without newline"}');

test('lines come out whole whatever the chunk borders are', () => {
  for (let first = 0; first <= text.length; first += 1) {
    for (let second = first; second <= text.length; second += 1) {
      const chunks = [text.subarray(0, first), text.subarray(first, second), text.subarray(second)];
      assert.deepEqual(frame(chunks), expected(text, 1000), `cut at ${first} and ${second}`);
    }
  }
});

test('a last line without newline is kept byte by byte', () => {
  const bytes = [...text].map((byte) => Buffer.from([byte]));
  assert.deepEqual(frame(bytes), expected(text, 1000));
});

test('any bytes in any chunks give the same as one chunk, with lines above the cap dropped whole', () => {
  const byte = fc.oneof({ weight: 1, arbitrary: fc.constant(10) }, { weight: 6, arbitrary: fc.nat(255) });
  const chunk = fc.array(byte, { maxLength: 40 }).map((bytes) => Buffer.from(bytes));
  fc.assert(
    fc.property(fc.array(chunk, { maxLength: 12 }), fc.integer({ min: 1, max: 30 }), (chunks, cap) => {
      assert.deepEqual(frame(chunks, cap), expected(Buffer.concat(chunks), cap));
    }),
    { numRuns: 3000 },
  );
});

test('a program that writes byte by byte costs no more than its line', () => {
  const framer = createFramer(16 * 1024 * 1024);
  const byte = Buffer.from('x');
  const before = process.memoryUsage().arrayBuffers;
  for (let n = 0; n < 2_000_000; n += 1) framer.push(byte);
  assert.ok(process.memoryUsage().arrayBuffers - before < 16 * 1024 * 1024);
  assert.equal(framer.flush()?.length, 2_000_000);
});
