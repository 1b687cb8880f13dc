import assert from 'node:assert/strict';
import { test } from 'node:test';
import { setTimeout as sleep } from 'node:timers/promises';
import { contentChunk, type Tool, type ToolOutcome, toolCallChunk } from '../../worker/index.ts';
import { settle } from '../../worker/tool-call.ts';
import { collectRun, endOf, makeTool, resultsOf } from './embedded-run.ts';
import { startFake } from './scripted-run.ts';
import { hasHalfSurrogate } from './tools/support.ts';

/** Tools that note when they begin and end; a call `[name, n]` per letter of the pattern: p(ure) or w(rite). */
function tracer() {
  const trace: string[] = [];
  let running = 0;
  let most = 0;
  const body = async ({ n }: Record<string, unknown>): Promise<ToolOutcome> => {
    trace.push(`+${n}`);
    running += 1;
    most = Math.max(most, running);
    // The first ends last.
    await sleep(60 - 5 * Number(n));
    running -= 1;
    trace.push(`-${n}`);
    return { content: `result ${n}`, isError: false };
  };
  return { trace, most: () => most, tools: [makeTool('p', 'pure', body), makeTool('w', 'write', body)] };
}

const calls = (pattern: string) => [
  {
    sse: Array.from(pattern, (name, index) =>
      toolCallChunk(name, { n: index }, { index, id: `call_${index}` }),
    ),
  },
  { sse: [contentChunk('ok')] },
];

test('up to five calls without effect run at the same time, and their results come in the order of the calls', async (t) => {
  const { trace, most, tools } = tracer();
  const fake = await startFake(t, calls('ppppppp'));
  const events = await collectRun(t, fake, { tools });
  assert.equal(endOf(events), 'done');
  assert.equal(most(), 5);
  assert.deepEqual(trace.slice(0, 5), ['+0', '+1', '+2', '+3', '+4']);
  assert.deepEqual(
    resultsOf(events).map((event) => event.content),
    [0, 1, 2, 3, 4, 5, 6].map((n) => `result ${n}`),
  );
});

test('a call with an effect runs alone: after all before it, before all after it', async (t) => {
  const { trace, most, tools } = tracer();
  const fake = await startFake(t, calls('ppwpw'));
  assert.equal(endOf(await collectRun(t, fake, { tools })), 'done');
  assert.equal(most(), 2);
  assert.deepEqual(trace, ['+0', '+1', '-1', '-0', '+2', '-2', '+3', '-3', '+4', '-4']);
});

test('a run that is cancelled while calls run at the same time answers each of them', async (t) => {
  const controller = new AbortController();
  const wait = makeTool('p', 'pure', async (_, { signal }) => {
    setTimeout(() => controller.abort(), 20);
    await new Promise((resolve) => signal.addEventListener('abort', resolve, { once: true }));
    return { content: 'cancelled', isError: true };
  });
  const fake = await startFake(t, calls('ppppppp'));
  const events = await collectRun(t, fake, { tools: [wait], signal: controller.signal });
  assert.equal(endOf(events), 'cancelled');
  assert.deepEqual(
    resultsOf(events).map((event) => event.content.slice(0, 9)),
    [...Array(5).fill('cancelled'), ...Array(2).fill('not run: ')],
  );
});

test('C043 whatever a tool gives is bounded, cut on code points only, and well-formed', () => {
  for (const unit of ['x', 'é', '北', '🏷']) {
    for (let shift = 0; shift < 4; shift += 1) {
      const text = 'y'.repeat(shift) + unit.repeat(60_000);
      const { content } = settle({ content: text, isError: false });
      const bytes = Buffer.byteLength(text);
      if (bytes <= 64 * 1024) {
        assert.equal(content, text);
        continue;
      }
      assert.ok(Buffer.byteLength(content) <= 51 * 1024);
      assert.equal(hasHalfSurrogate(content) || content.includes('\ufffd'), false);
      const dropped = /\n\[… (\d+) bytes dropped here …\]\n/.exec(content);
      assert.ok(dropped);
      assert.equal(Buffer.byteLength(content) - Buffer.byteLength(dropped[0]) + Number(dropped[1]), bytes);
    }
  }
  assert.equal(settle({ content: 'half \ud83d pair', isError: false }).content, 'half \ufffd pair');
});

test('a tool that gives no proper result is an error result', async (t) => {
  const image = { mediaType: 'image/svg+xml', data: 'x' };
  const given: unknown[] = [
    undefined,
    null,
    'text',
    { isError: false },
    { content: 7 },
    { content: '', image },
    { content: '', image: { mediaType: 'image/png', data: 'x'.repeat(8 * 1024 * 1024) } },
  ];
  for (const value of given) {
    const odd = makeTool('p', 'pure', () => value as ToolOutcome);
    const fake = await startFake(t, calls('p'));
    const events = await collectRun(t, fake, { tools: [odd] });
    assert.equal(endOf(events), 'done');
    assert.equal(resultsOf(events)[0]?.isError, true);
    assert.ok(fake.requests.every((request) => request.problems.length === 0));
  }
});

test('a read-only run shows and runs no tool with an effect, own tools included', async (t) => {
  const { trace, tools } = tracer();
  const fake = await startFake(t, calls('wp'));
  const events = await collectRun(t, fake, { tools, readOnly: true });
  assert.deepEqual(trace, ['+1', '-1']);
  assert.match(resultsOf(events)[0]?.content ?? '', /there is no tool "w"; available: p$/);
  assert.deepEqual(
    fake.requests[0]?.body.tools.map((tool: { function: Tool }) => tool.function.name),
    ['p'],
  );
});
