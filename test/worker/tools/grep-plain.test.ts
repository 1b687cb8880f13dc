import assert from 'node:assert/strict';
import { test } from 'node:test';
import fc from 'fast-check';
import { createPlainMatcher, plainTextOf } from '../../../worker/tools/grep-plain.ts';
import { startMatcher } from '../../../worker/tools/grep-thread.ts';

test('only an expression without any operator is plain text', () => {
  for (const plain of ['needle', 'a-b', 'x = 1;', '北京', '"', '<->', '#/'])
    assert.equal(plainTextOf(plain), plain);
  for (const operator of [
    'a.b',
    'a|b',
    '^a',
    'a$',
    '\\w',
    '(a)',
    '[a]',
    'a{2}',
    'a*',
    'a+',
    'a?',
    'a\nb',
    'a\r',
    '\ufffd',
  ])
    assert.equal(plainTextOf(operator), null, operator);
});

test('plain text is found where the same expression finds it, whatever the bytes', async () => {
  const piece = fc.oneof(
    fc
      .constantFrom('a', 'ab', 'b', ' ', '\n', '\r\n', '\r', '北', '🏷', '\u2028')
      .map((text) => Buffer.from(text)),
    fc.constantFrom(0xff, 0xc3, 0x80, 0xe5).map((byte) => Buffer.from([byte])),
  );
  const matchers = ['a', 'ab', '北', 'a b', '🏷'].map((text) => ({
    plain: createPlainMatcher(text),
    thread: startMatcher(text, false),
  }));
  try {
    await fc.assert(
      fc.asyncProperty(fc.array(piece, { maxLength: 40 }), fc.nat(5), async (pieces, maxHits) => {
        const bytes = Buffer.concat(pieces);
        for (const { plain, thread } of matchers) {
          const found = await plain.search(new Uint8Array(bytes), 7, maxHits);
          assert.deepEqual(found, await thread.search(new Uint8Array(bytes), 7, maxHits));
        }
      }),
      { numRuns: 150 },
    );
  } finally {
    for (const { thread } of matchers) await thread.close();
  }
});
