import assert from 'node:assert/strict';
import { test } from 'node:test';
import { contentChunk, type Tool, toolCallChunk } from '../../../worker/index.ts';
import { runHere, startFake } from '../scripted-run.ts';

const big: Tool = {
  name: 'big',
  description: 'much text',
  parameters: { type: 'object', properties: {} },
  effect: 'pure',
  run: async () => ({ content: 'word '.repeat(120), isError: false }),
};

test('a gateway that goes away while a summary is asked for is waited for: the same request again, and no trim', async (t) => {
  let [rounds, away] = [0, 3];
  const summaries: string[] = [];
  const fake = await startFake(t, ({ body, text }) => {
    if (body.tools === undefined) {
      summaries.push(text);
      away -= 1;
      return away >= 0 ? { fault: 'reset' } : { sse: [contentChunk('the sum')] };
    }
    rounds += 1;
    return {
      sse: rounds <= 6 ? [contentChunk('step '.repeat(40)), toolCallChunk('big')] : [contentChunk('ok')],
    };
  });
  const models = [{ id: 'm', baseUrl: fake.baseUrl, gateway: true, inputLimit: 1800 }];
  const ran = await runHere(t, fake.baseUrl, { models, tools: [big] });
  assert.equal(ran.outcome, 'ok');
  const [first, ...others] = summaries.slice(0, 4);
  assert.deepEqual(others, [first, first, first]);
  const compacted = ran.events.flatMap((one) => (one.type === 'compact' ? [one.method] : []));
  assert.equal(compacted[0], 'summary');
  const gone = ran.events.flatMap((one) =>
    one.type === 'fallback' ? [`${one.from}>${one.to} ${one.reason}`] : [],
  );
  assert.deepEqual(gone, ['m>m gateway'], 'said once');
});
