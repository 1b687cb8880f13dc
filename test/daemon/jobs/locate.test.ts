// Finding a line by its number, against the plain way of doing it.
import assert from 'node:assert/strict';
import { mkdtemp, open, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { after, before, test } from 'node:test';
import fc from 'fast-check';
import { seqAt } from '../../../daemon/jobs/event-line.ts';
import { placeAfter } from '../../../daemon/jobs/locate.ts';

let dir: string;
before(async () => {
  dir = await mkdtemp(join(tmpdir(), 'djinnd-locate-'));
});
after(() => rm(dir, { recursive: true, force: true }));

const lineOf = (seq: number, length: number) => `{"seq":${seq},"ts":"x","text":"${'y'.repeat(length)}"}\n`;

async function place(text: string, seq: number) {
  const path = join(dir, 'spool');
  await writeFile(path, text);
  const file = await open(path, 'r');
  try {
    return await placeAfter(file, seq, seqAt);
  } finally {
    await file.close();
  }
}

test('the place after any line is where the next one begins, whatever the lengths of the lines', async () => {
  const lengths = fc.array(fc.oneof(fc.integer({ min: 0, max: 200 }), fc.integer({ min: 0, max: 150_000 })), {
    minLength: 1,
    maxLength: 40,
  });
  await fc.assert(
    fc.asyncProperty(lengths, fc.nat(45), fc.boolean(), async (sizes, asked, torn) => {
      const lines = sizes.map((size, index) => lineOf(index + 1, size));
      const there = Math.min(asked, lines.length);
      const text = lines.join('') + (torn ? lineOf(lines.length + 1, 50).slice(0, -1) : '');
      const offset = Buffer.byteLength(lines.slice(0, there).join(''));
      assert.deepEqual(await place(text, asked), { offset, seq: there });
    }),
    { numRuns: 60 },
  );
});

test('lines of many megabytes and an empty file are no exception', async () => {
  const lines = [lineOf(1, 10), lineOf(2, 3_000_000), lineOf(3, 10), lineOf(4, 2_000_000), lineOf(5, 0)];
  for (let seq = 0; seq <= 5; seq++) {
    assert.deepEqual(await place(lines.join(''), seq), { offset: lines.slice(0, seq).join('').length, seq });
  }
  assert.deepEqual(await place('', 3), { offset: 0, seq: 0 });
  assert.deepEqual(await place('{"seq":1,"half', 1), { offset: 0, seq: 0 });
});
