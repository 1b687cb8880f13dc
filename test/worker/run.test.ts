import assert from 'node:assert/strict';
import { getEventListeners } from 'node:events';
import { type TestContext, test } from 'node:test';
import { setTimeout as sleep } from 'node:timers/promises';
import { createChannel } from '../../worker/channel.ts';
import {
  contentChunk,
  type FakeOpenAI,
  run,
  type Script,
  stall,
  startFakeOpenAI,
  type Tool,
  type ToolFilter,
  toolCallChunk,
  type WorkerEvent,
} from '../../worker/index.ts';
import { makeFolder, readerText, terminal } from './worker-process.ts';

async function startFake(t: TestContext, script: Script): Promise<FakeOpenAI> {
  const fake = await startFakeOpenAI(script);
  t.after(() => fake.stop());
  return fake;
}
async function collect(events: AsyncIterable<WorkerEvent>): Promise<WorkerEvent[]> {
  const all: WorkerEvent[] = [];
  for await (const event of events) all.push(event);
  terminal(all);
  return all;
}

test('two runs at once in one process keep apart', async (t) => {
  const fake = await startFake(t, ({ body }) => ({
    sse: Array.from({ length: 20 }, () => contentChunk(body.messages.at(-1).content)),
    pauseMs: 2,
  }));
  const models = [{ id: 'm', baseUrl: fake.baseUrl }];
  const session = { provider: 'file' as const, dir: makeFolder(t) };
  const texts = await Promise.all(
    ['a', 'b'].map(async (prompt) => readerText(await collect(run({ prompt, models, session })))),
  );
  assert.deepEqual(texts, ['a'.repeat(20), 'b'.repeat(20)]);
});

test('a run leaves signals, stdout and the exit code of its process alone', async (t) => {
  const fake = await startFake(t, [{ sse: [contentChunk('ok')] }]);
  const before = ['SIGINT', 'SIGTERM', 'SIGHUP', 'uncaughtException'].map((name) =>
    process.listenerCount(name),
  );
  await collect(
    run({
      prompt: 'x',
      models: [{ id: 'm', baseUrl: fake.baseUrl }],
      session: { provider: 'file', dir: makeFolder(t) },
    }),
  );
  const after = ['SIGINT', 'SIGTERM', 'SIGHUP', 'uncaughtException'].map((name) =>
    process.listenerCount(name),
  );
  assert.deepEqual([after, process.exitCode], [before, undefined]);
});

test('an abort ends the run with one error event that carries the reason', async (t) => {
  const fake = await startFake(t, [stall()]);
  const controller = new AbortController();
  setTimeout(() => controller.abort(), 300);
  const options = { prompt: 'x', models: [{ id: 'm', baseUrl: fake.baseUrl }], signal: controller.signal };
  const events = await collect(run({ ...options, session: { provider: 'file', dir: makeFolder(t) } }));
  const last = terminal(events);
  assert.equal(last.type === 'error' ? last.code : last, 'cancelled');
});

test('leaving the iteration cancels the run and waits for its tool', async (t) => {
  const fake = await startFake(t, [{ sse: [toolCallChunk('slow')] }]);
  let state = 'idle';
  const slow: Tool = {
    name: 'slow',
    description: 'waits',
    parameters: { type: 'object', properties: {} },
    effect: 'exec',
    async run(_, { signal }) {
      state = 'running';
      await new Promise((resolve) => signal.addEventListener('abort', resolve, { once: true }));
      await sleep(50);
      state = 'ended';
      return { content: 'cancelled', isError: true };
    },
  };
  const session = { provider: 'file' as const, dir: makeFolder(t) };
  for await (const event of run({
    prompt: 'x',
    models: [{ id: 'm', baseUrl: fake.baseUrl }],
    tools: [slow],
    session,
  })) {
    if (event.type === 'tool_call') break;
  }
  assert.notEqual(state, 'running');
});

test('a tool that throws is an error result', async (t) => {
  const fake = await startFake(t, [{ sse: [toolCallChunk('bad')] }, { sse: [contentChunk('ok')] }]);
  const bad: Tool = {
    name: 'bad',
    description: 'throws',
    parameters: { type: 'object', properties: {} },
    effect: 'pure',
    run: () => Promise.reject(new Error('broken')),
  };
  const session = { provider: 'file' as const, dir: makeFolder(t) };
  const events = await collect(
    run({ prompt: 'x', models: [{ id: 'm', baseUrl: fake.baseUrl }], tools: [bad], session }),
  );
  const result = events.find((event) => event.type === 'tool_result');
  assert.ok(result?.type === 'tool_result' && result.isError && result.content.includes('broken'));
});

test('a slow reader slows the run: what waits for it is bounded', async () => {
  const channel = createChannel<string>();
  const batches = channel.batches();
  channel.push('small', 5);
  await channel.drained();
  channel.push('large', 300_000);
  let released = false;
  const drained = channel.drained().then(() => {
    released = true;
  });
  assert.deepEqual((await batches.next()).value, ['small', 'large']);
  await sleep(10);
  assert.equal(released, false);
  const next = batches.next();
  await drained;
  channel.end();
  assert.equal((await next).done, true);
});

test('what cannot be run is an error event, not an exception', async (t) => {
  const session = { provider: 'file' as const, dir: makeFolder(t) };
  const models = [{ id: 'm', baseUrl: 'http://127.0.0.1:1/v1' }];
  const code = async (options: Parameters<typeof run>[0]): Promise<string> => {
    const last = terminal(await collect(run({ session, models, ...options })));
    return last.type === 'error' ? last.code : last.type;
  };
  assert.equal(await code({ prompt: ' ' }), 'bad_prompt');
  assert.equal(await code({}), 'no_prompt');
  assert.equal(await code({ prompt: 'x', cwd: '/does/not/exist' }), 'bad_cwd');
  assert.equal(await code({ prompt: 'x', models: [] }), 'settings');
  assert.equal(await code({ prompt: 'x', sessionId: '../x' }), 'storage');
  assert.equal(await code({ prompt: 'x', models: [{ id: 'm', baseUrl: 'ftp://h' }] }), 'settings');
});

test('a signal that lives for long is not left with a listener per run', async (t) => {
  const fake = await startFake(t, [{ sse: [contentChunk('ok')] }]);
  const { signal } = new AbortController();
  const session = { provider: 'file' as const, dir: makeFolder(t) };
  for (let round = 0; round < 3; round += 1)
    await collect(run({ prompt: 'x', models: [{ id: 'm', baseUrl: fake.baseUrl }], signal, session }));
  assert.equal(getEventListeners(signal, 'abort').length, 0);
});

test('own tools stand beside the built-in ones, and are narrowed like them', async (t) => {
  const session = { provider: 'file' as const, dir: makeFolder(t) };
  const own: Tool = {
    name: 'own',
    description: 'does something',
    parameters: { type: 'object', properties: {} },
    effect: 'exec',
    run: async () => ({ content: 'done', isError: false }),
  };
  const shown = async (tools: ToolFilter, readOnly = false): Promise<string[]> => {
    const fake = await startFake(t, [{ sse: [contentChunk('ok')] }]);
    const models = [{ id: 'm', baseUrl: fake.baseUrl }];
    await collect(run({ prompt: 'x', models, session, tools, readOnly }));
    const list: { function: { name: string } }[] = fake.requests[0]?.body.tools ?? [];
    return list.map((tool) => tool.function.name);
  };
  assert.equal((await shown({ add: [own] })).at(-1), 'own');
  assert.equal((await shown({ add: [own] })).length, 8);
  assert.deepEqual(await shown({ add: [own], allow: ['own', 'bash'], deny: ['bash'] }), ['own']);
  assert.equal((await shown({ add: [own], deny: ['own'] })).includes('own'), false);
  assert.equal((await shown({ add: [own] }, true)).includes('own'), false);
  const wrong = [
    { ...own, name: 'bash' },
    { ...own, name: 'a b' },
    { ...own, effect: undefined },
    { ...own, run: undefined },
    { ...own, parameters: undefined },
    null,
  ];
  for (const tool of wrong) {
    const models = [{ id: 'm', baseUrl: 'http://127.0.0.1:1/v1' }];
    const tools = { add: [tool as unknown as Tool] };
    const last = terminal(await collect(run({ prompt: 'x', models, session, tools })));
    assert.equal(last.type === 'error' ? last.code : last, 'settings');
  }
});
