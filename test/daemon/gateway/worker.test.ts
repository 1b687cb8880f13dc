// The worker's own model client on one side, its fake model server on the other, the gateway between them.
import assert from 'node:assert/strict';
import { mkdtemp, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { type TestContext, test } from 'node:test';
import {
  contentChunk,
  finishChunk,
  httpError,
  run,
  type Script,
  startFakeOpenAI,
  toolCallChunk,
  usageChunk,
  type WorkerEvent,
} from '../../../worker/index.ts';
import { KEY, openGateway, type TestGateway } from '../../support/gateway.ts';

async function converse(t: TestContext, { socketPath }: TestGateway): Promise<WorkerEvent[]> {
  const cwd = await mkdtemp(join(tmpdir(), 'djgw-run-'));
  t.after(() => rm(cwd, { recursive: true, force: true }));
  await writeFile(join(cwd, 'a.txt'), 'hello 北');
  const models = ['m-1', 'm-2'].map((id) => ({ id, baseUrl: `unix:${socketPath}:/v1`, gateway: true }));
  const session = { provider: 'file' as const, dir: join(cwd, '.sessions') };
  const events: WorkerEvent[] = [];
  for await (const event of run({ prompt: 'read it', cwd, models, session })) events.push(event);
  return events;
}

async function startFake(t: TestContext, script: Script) {
  const fake = await startFakeOpenAI(script);
  t.after(() => fake.stop());
  return fake;
}

test('a run with a tool call goes through, byte for byte, and the counts agree on both sides', async (t) => {
  const fake = await startFake(t, [
    {
      sse: [toolCallChunk('read_file', { path: 'a.txt' }), finishChunk('tool_calls'), usageChunk(100, 10)],
    },
    { sse: [contentChunk('it says '), contentChunk('北'), finishChunk('stop'), usageChunk(130, 5)] },
  ]);
  const gateway = await openGateway(t, fake.baseUrl);
  const events = await converse(t, gateway);
  assert.ok(events.some((event) => event.type === 'tool_result' && event.content.includes('hello 北')));
  const done = events.find((event) => event.type === 'done');
  assert.equal(done?.text, 'it says 北');
  assert.deepEqual(done?.usage, { inputTokens: 230, outputTokens: 15, totalTokens: 245 });
  assert.deepEqual(
    gateway.spent.map(({ inputTokens, outputTokens, estimated }) => [inputTokens, outputTokens, estimated]),
    [
      [100, 10, false],
      [130, 5, false],
    ],
  );
  assert.equal(fake.requests.length, 2);
  for (const { headers, problems } of fake.requests) {
    assert.equal(headers.authorization, `Bearer ${KEY}`);
    assert.deepEqual(problems, []);
  }
  assert.ok(!JSON.stringify(events).includes(KEY));
});

test('an upstream that is down moves the run to the next model, and what it repeats of the key stays hidden', async (t) => {
  const fake = await startFake(t, ({ body, headers }) =>
    body.model === 'm-1'
      ? httpError(500, { message: `bad key ${headers.authorization}` })
      : { sse: [contentChunk('fine'), finishChunk('stop'), usageChunk(1, 1)] },
  );
  const gateway = await openGateway(t, fake.baseUrl);
  const events = await converse(t, gateway);
  const fallback = events.find((event) => event.type === 'fallback');
  assert.deepEqual([fallback?.from, fallback?.to], ['m-1', 'm-2']);
  assert.equal(events.at(-1)?.type, 'done');
  assert.ok(!JSON.stringify(events).includes(KEY));
});

test('a budget that is spent ends the run with an error that says so', async (t) => {
  const fake = await startFake(t, [{ sse: [contentChunk('x'), finishChunk('stop')] }]);
  const gateway = await openGateway(t, fake.baseUrl);
  gateway.remaining.tokens = 0;
  const events = await converse(t, gateway);
  const error = events.find((event) => event.type === 'error');
  assert.match(`${error?.code} ${error?.message}`, /budget/);
  assert.equal(fake.requests.length, 0);
  assert.ok(gateway.budgetSpent.length >= 1);
});
