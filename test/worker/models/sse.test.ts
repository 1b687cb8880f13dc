import assert from 'node:assert/strict';
import { test } from 'node:test';
import fc from 'fast-check';
import { createSseParser, MAX_EVENT_BYTES } from '../../../worker/models/sse.ts';

function parse(bytes: Buffer, cuts: number[] = []): string[] {
  const parser = createSseParser();
  const events: string[] = [];
  let from = 0;
  for (const cut of [...cuts].sort((a, b) => a - b).concat(bytes.length)) {
    events.push(...parser.feed(bytes.subarray(from, cut)));
    from = cut;
  }
  return events;
}

test('C001: characters of several bytes stay whole at every cut', () => {
  const bytes = Buffer.from('data: 北🌍“\n\n');
  for (let cut = 0; cut <= bytes.length; cut += 1) assert.deepEqual(parse(bytes, [cut]), ['北🌍“']);
  assert.deepEqual(parse(bytes, [...bytes.keys()]), ['北🌍“']);
});

test('C002: LF, CRLF and CR end lines, also when a read cuts a CRLF', () => {
  for (const end of ['\n', '\r\n', '\r']) {
    const bytes = Buffer.from(['a', 'b', 'c'].map((text) => `data: ${text}${end}${end}`).join(''));
    for (let cut = 0; cut <= bytes.length; cut += 1) assert.deepEqual(parse(bytes, [cut]), ['a', 'b', 'c']);
  }
});

test('an event is dispatched as soon as its blank line is there, also with CR alone', () => {
  const parser = createSseParser();
  assert.deepEqual(parser.feed(Buffer.from('data: a\r\r')), ['a']);
  assert.deepEqual(parser.feed(Buffer.from('\ndata: b\n\n')), ['b']);
});

test('C004: comments, ids and other fields bring no event; a leading BOM is dropped', () => {
  const text =
    '\uFEFFdata: one\n\n: PROCESSING\n\nid: 1\n: ping\n\nevent: x\nretry: 5\n\ndata:two\ndata:  three\n\n';
  assert.deepEqual(parse(Buffer.from(text)), ['one', 'two\n three']);
});

test('a line without its end is no event until `finish` asks for it', () => {
  const parser = createSseParser();
  assert.deepEqual(parser.feed(Buffer.from('data: half')), []);
  assert.equal(parser.finish(), 'half');
  assert.equal(parser.finish(), null);
});

test('an event without end is refused before it fills the memory', () => {
  const parser = createSseParser();
  const chunk = Buffer.alloc(1024 * 1024, 'a');
  assert.throws(() => {
    for (let fed = 0; fed <= MAX_EVENT_BYTES; fed += chunk.length) parser.feed(chunk);
  }, RangeError);
});

test('whatever the cuts, the events are the same', () => {
  const line = fc.constantFrom(
    'data: x',
    'data:y',
    'data',
    ': c',
    'id: 1',
    '',
    'data: 北🌍',
    'datax: n',
    'data: \u2028z',
  );
  const end = fc.constantFrom('\n', '\r\n', '\r');
  fc.assert(
    fc.property(fc.array(fc.tuple(line, end)), fc.array(fc.nat(400)), (lines, cuts) => {
      const bytes = Buffer.from(lines.map(([text, mark]) => text + mark).join(''));
      const valid = cuts.filter((cut) => cut <= bytes.length);
      assert.deepEqual(parse(bytes, valid), parse(bytes));
    }),
  );
});
