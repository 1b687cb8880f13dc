import assert from 'node:assert/strict';
import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { test } from 'node:test';
import fc from 'fast-check';
import { contentChunk, run, startFakeOpenAI } from '../../../worker/index.ts';
import type { Delta } from '../../../worker/models/answer.ts';
import { mergeDeltas } from '../../../worker/models/merge-deltas.ts';

const kinds = (deltas: Delta[]) => ({
  text: deltas.map(({ text, reasoning }) => (reasoning ? '' : text)).join(''),
  reasoning: deltas.map(({ text, reasoning }) => (reasoning ? text : '')).join(''),
});

test('nothing is lost or moved, the first of a read come one by one, and long reads give few', () => {
  const delta = fc.record(
    { text: fc.string({ minLength: 1 }), reasoning: fc.boolean() },
    { noNullPrototype: true },
  );
  fc.assert(
    fc.property(fc.array(fc.array(delta, { maxLength: 60 }), { maxLength: 5 }), (reads) => {
      const got: Delta[] = [];
      const merged = mergeDeltas((one) => got.push({ ...one }));
      for (const read of reads) {
        const before = got.length;
        for (const one of read) merged.take(one);
        merged.flush();
        const mine = got.slice(before);
        assert.deepEqual(mine.slice(0, 16), read.slice(0, 16));
        for (let at = 17; at < mine.length; at += 1)
          assert.notEqual(mine[at]?.reasoning, mine[at - 1]?.reasoning);
      }
      assert.deepEqual(kinds(got), kinds(reads.flat()));
    }),
  );
});

test('a fast model costs less than three times its text, the answer is whole', async (t) => {
  const home = mkdtempSync(join(tmpdir(), 'djinn-merge-'));
  const fake = await startFakeOpenAI([
    { sse: Array.from({ length: 20_000 }, (_, n) => contentChunk(`w${n % 10} `)) },
  ]);
  t.after(async () => {
    await fake.stop();
    rmSync(home, { recursive: true, force: true });
  });
  let lineBytes = 0;
  let text = '';
  let final = '';
  for await (const event of run({
    prompt: 'go',
    cwd: home,
    models: [{ id: 'm', baseUrl: fake.baseUrl }],
    session: { provider: 'file', dir: home },
  })) {
    if (event.type === 'token') {
      lineBytes += JSON.stringify(event).length + 1;
      text += event.text;
    }
    if (event.type === 'done') final = event.text;
  }
  assert.equal(text.length, 60_000);
  assert.equal(final, text);
  assert.ok(lineBytes < 3 * text.length, `${lineBytes} for ${text.length}`);
});
