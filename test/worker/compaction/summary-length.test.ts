import assert from 'node:assert/strict';
import { test } from 'node:test';
import { MAX_SUMMARY_LENGTH } from '../../../worker/compaction/summary.ts';
import { contentChunk, type Tool, toolCallChunk } from '../../../worker/index.ts';
import { runHere, startFake } from '../scripted-run.ts';

const big: Tool = {
  name: 'big',
  description: 'much text',
  parameters: { type: 'object', properties: {} },
  effect: 'pure',
  run: async () => ({ content: 'word '.repeat(100), isError: false }),
};

test('a summary of more than its longest length is none, however large the window, and the log keeps no more of it', async (t) => {
  for (const [length, method] of [
    [MAX_SUMMARY_LENGTH, 'summary'],
    [MAX_SUMMARY_LENGTH + 1, 'trim'],
    [3 * MAX_SUMMARY_LENGTH, 'trim'],
  ] as const) {
    let rounds = 0;
    const fake = await startFake(t, ({ body }) => {
      if (body.tools === undefined) return { sse: [contentChunk('s'.repeat(length))] };
      rounds += 1;
      return {
        sse: rounds <= 8 ? [contentChunk('step '.repeat(2000)), toolCallChunk('big')] : [contentChunk('ok')],
      };
    });
    const models = [{ id: 'm', baseUrl: fake.baseUrl, inputLimit: 20_000 }];
    const ran = await runHere(t, fake.baseUrl, { models, tools: [big] });
    assert.equal(ran.outcome, 'ok');
    const compacted = ran.events.find((one) => one.type === 'compact');
    assert.equal(compacted?.type === 'compact' ? compacted.method : '', method, `${length}`);
    const kept = ran.records.filter((line) => line.type === 'summary').map((line) => line.data.text.length);
    assert.ok(kept.length > 0 && kept.every((one) => one <= MAX_SUMMARY_LENGTH + 1), kept.join(' '));
  }
});
