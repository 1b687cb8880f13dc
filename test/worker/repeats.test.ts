import assert from 'node:assert/strict';
import { test } from 'node:test';
import { contentChunk, type Reply, toolCallChunk } from '../../worker/index.ts';
import { collectRun, endOf, makeTool, resultsOf } from './embedded-run.ts';
import { startFake } from './scripted-run.ts';
import { makeFolder } from './worker-process.ts';

const call = (n: number): Reply => ({ sse: [toolCallChunk('look', { n })] });
const budget = { repeats: 6 };
const look = makeTool('look', 'pure', ({ n }) => ({ content: `saw ${n}`, isError: false }));

test('the same call with the same result is told to the model from the fifth time on and ends the run at the 40th', async (t) => {
  const fake = await startFake(t, [call(1)]);
  const events = await collectRun(t, fake, { tools: [look] });
  assert.equal(endOf(events), 'tool_loop');
  assert.equal(fake.requests.length, 40);
  assert.deepEqual(
    resultsOf(events)
      .slice(0, 7)
      .map((event) => /results (\d) times in a row/.exec(event.content)?.[1]),
    [undefined, undefined, undefined, undefined, '5', '6', '7'],
  );
  assert.match(fake.requests[5]?.text ?? '', /saw 1\\n\[the same calls gave the same results 5 times/);
  assert.doesNotMatch(fake.requests[4]?.text ?? '', /times in a row/);
});

test('a circle of several calls is seen too, and so is one of calls that fail', async (t) => {
  for (const size of [2, 3, 4]) {
    const fake = await startFake(t, ({ index }) => call(index % size));
    assert.equal(endOf(await collectRun(t, fake, { tools: [look], budget })), 'tool_loop');
    assert.equal(fake.requests.length, 6 * size);
  }
  const fake = await startFake(t, [{ sse: [toolCallChunk('nope')] }]);
  assert.equal(endOf(await collectRun(t, fake, { tools: [look], budget })), 'tool_loop');
  assert.equal(fake.requests.length, 6);
});

test('a result that changes, other calls in between and a new prompt are no circle', async (t) => {
  let polls = 0;
  const poll = makeTool('look', 'pure', () => ({ content: `${polls++}`, isError: false }));
  const polling = await startFake(t, ({ index }) => (index < 12 ? call(1) : { sse: [contentChunk('done')] }));
  assert.equal(endOf(await collectRun(t, polling, { tools: [poll], budget })), 'done');
  const mixed = await startFake(t, ({ index }) =>
    index < 20 ? call(index % 2 === 0 ? 1 : index) : { sse: [contentChunk('done')] },
  );
  assert.equal(endOf(await collectRun(t, mixed, { tools: [look], budget })), 'done');
  const session = { provider: 'file' as const, dir: makeFolder(t) };
  const looping = await startFake(t, [call(1)]);
  assert.equal(endOf(await collectRun(t, looping, { tools: [look], session, budget })), 'tool_loop');
  looping.setScript([{ sse: [contentChunk('ok')] }]);
  assert.equal(
    endOf(await collectRun(t, looping, { tools: [look], session, prompt: 'again', budget })),
    'done',
  );
});
