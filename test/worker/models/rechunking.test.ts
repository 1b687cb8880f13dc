// The same bytes in other pieces are the same stream: for the parser, for the whole way from bytes to an answer, and
// against a parser that others wrote.
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { createParser } from 'eventsource-parser';
import fc from 'fast-check';
import { contentChunk, finishChunk, toolCallChunk, usageChunk } from '../../../worker/index.ts';
import { createAssembler } from '../../../worker/models/answer.ts';
import { createSseParser } from '../../../worker/models/sse.ts';

/** The bytes in pieces; cuts beyond the end do nothing. */
function pieces(bytes: Buffer, cuts: readonly number[]): Buffer[] {
  const at = [...new Set(cuts.filter((cut) => cut < bytes.length))].sort((a, b) => a - b);
  return [...at, bytes.length].map((end, index) => bytes.subarray(at[index - 1] ?? 0, end));
}

const ours = (parts: readonly Buffer[]): string[] => {
  const parser = createSseParser();
  return parts.flatMap((part) => parser.feed(part));
};

function theirs(parts: readonly Buffer[]): string[] {
  const events: string[] = [];
  const parser = createParser({ onEvent: (event) => events.push(event.data) });
  const decoder = new TextDecoder('utf-8');
  for (const part of parts) parser.feed(decoder.decode(part, { stream: true }));
  return events;
}

const line = fc.oneof(
  fc.constantFrom(
    'data: x',
    'data:y',
    'data',
    'data:',
    'data: ',
    'data:  two',
    ': c',
    ':',
    'id: 1',
    'retry: 10',
  ),
  fc.constantFrom(
    '',
    '',
    '',
    'event: e',
    'datax: n',
    ' data: n',
    'data : n',
    'unknown',
    'data: \u2028z\u0085',
  ),
  fc.string({ unit: 'grapheme', maxLength: 12 }).map((text) => `data: ${text.replace(/[\r\n\0]/g, '')}`),
);
const cutList = fc.array(fc.nat(300), { maxLength: 40 });

for (const [name, end] of [
  ['LF', '\n'],
  ['CRLF', '\r\n'],
  ['CR', '\r'],
  ['mixed', null],
] as const) {
  test(`with ${name} line ends, any cuts give the events that the other parser gives of the whole`, () => {
    const ends = end === null ? fc.constantFrom('\n', '\r\n', '\r') : fc.constant(end);
    fc.assert(
      fc.property(
        fc.boolean(),
        fc.array(fc.tuple(line, ends), { maxLength: 30 }),
        cutList,
        (bom, lines, cuts) => {
          // An LF behind a last bare CR would be the other half of a CRLF, so the text ends in a comment.
          const text = `${bom ? '\uFEFF' : ''}${lines.map(([words, mark]) => words + mark).join('')}:end\n`;
          const bytes = Buffer.from(text);
          const whole = ours([bytes]);
          assert.deepEqual(ours(pieces(bytes, cuts)), whole);
          assert.deepEqual(theirs([bytes]), whole);
        },
      ),
      { numRuns: 300 },
    );
  });
}

test('byte by byte is like the whole, whatever the line ends', () => {
  fc.assert(
    fc.property(fc.array(fc.tuple(line, fc.constantFrom('\n', '\r\n', '\r'))), (lines) => {
      const bytes = Buffer.from(`${lines.map(([words, mark]) => words + mark).join('')}\n\n`);
      assert.deepEqual(ours([...bytes].map((byte) => Buffer.from([byte]))), ours([bytes]));
    }),
  );
});

const chunk = fc.oneof(
  fc.string({ unit: 'binary', maxLength: 20 }).map(contentChunk),
  fc.nat(3).map((index) => toolCallChunk('glob', { pattern: '北🌍“' }, { id: `c${index}`, index })),
  fc.constant(usageChunk(10, 5)),
  fc.constant({ choices: [] }),
);

test('from bytes to the answer: any cuts, comments and line ends in between give the same text, calls and usage', () => {
  const noise = fc.constantFrom('', ': ka\n\n', 'data: {"type":"ping"}\n\n', 'data:\n\n', 'id: 7\n: x\n\n');
  const read = (parts: readonly Buffer[]): unknown => {
    const assembler = createAssembler();
    let streamed = '';
    for (const data of ours(parts)) for (const delta of assembler.accept(data)) streamed += delta.text;
    const { answer, rest } = assembler.answer('made');
    for (const delta of rest) streamed += delta.text;
    assert.equal(streamed, answer.text);
    return answer;
  };
  fc.assert(
    fc.property(
      fc.array(fc.tuple(chunk, noise), { maxLength: 12 }),
      fc.boolean(),
      cutList,
      (chunks, crlf, cuts) => {
        const data = (one: unknown): string => `data: ${JSON.stringify(one)}\n\n`;
        const last = `${data(contentChunk('end'))}${data(finishChunk('stop'))}data: [DONE]\n\n`;
        const clean = chunks.map(([one]) => data(one)).join('') + last;
        const noisy = chunks.map(([one, extra]) => data(one) + extra).join('') + last;
        const bytes = Buffer.from(crlf ? noisy.replaceAll('\n', '\r\n') : noisy);
        assert.deepEqual(read(pieces(bytes, cuts)), read([Buffer.from(clean)]));
      },
    ),
  );
});
