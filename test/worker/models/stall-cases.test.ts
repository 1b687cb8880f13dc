// Part A of the cases: streams that stand still, and those that only seem to.
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { contentChunk, type Reply, run, type Step } from '../../../worker/index.ts';
import { event, runHere, startFake, startTwo, twoModels } from '../scripted-run.ts';
import { makeFolder } from '../worker-process.ts';

test('C026: only chunks of an answer keep it alive: no comments, pings or bytes do', async (t) => {
  const warm = (text: string): Step[] =>
    Array.from({ length: 160 }, (_, n) => (n % 2 === 0 ? { pauseMs: 250 } : text));
  const first = event(contentChunk('a'));
  const table: [string, Reply][] = [
    ['comments', { raw: [first, ...warm(': ka\n\n')], hold: true }],
    ['pings as data', { raw: [first, ...warm('data: {"type":"ping"}\n\n')], hold: true }],
    ['ids and blank lines', { raw: [first, ...warm('id: 1\n\n')], hold: true }],
    ['bytes of an event that never ends', { raw: [first, 'data: {"choices":[', ...warm(' ')], hold: true }],
    ['silence behind the head', { raw: [first], hold: true }],
    ['an empty head', { raw: [], hold: true }],
    ['silence before the head', { fault: 'stall' }],
  ];
  const check = async ([name, reply]: [string, Reply]): Promise<void> => {
    const fake = await startTwo(t, reply);
    const ran = await runHere(t, fake.baseUrl, { models: twoModels(fake), idleTimeoutMs: 1000 });
    assert.equal(ran.outcome, 'ok', name);
    const [from, to] = fake.requests.map((request) => request.arrivedMs);
    const tookMs = (to ?? 0) - (from ?? 0);
    assert.ok(tookMs >= 500 && tookMs <= 8000, `${name}: ${tookMs} ms`);
    const fallback = ran.events.find((one) => one.type === 'fallback');
    assert.equal(fallback?.type === 'fallback' ? fallback.reason : '', 'stall', name);
  };
  await Promise.all(table.map(check));
});

test('a model that sends a little now and then is not stalled, however long it takes', async (t) => {
  const raw: Step[] = Array.from({ length: 10 }, (_, n) => [
    { pauseMs: 400 },
    event(contentChunk(`${n}`)),
  ]).flat();
  const fake = await startFake(t, [{ raw: [...raw, 'data: [DONE]\n\n'] }]);
  assert.equal((await runHere(t, fake.baseUrl, { idleTimeoutMs: 3000 })).outcome, '0123456789');
});

test('comments may hold a request in the queue before its first chunk, for the time of the queue', async (t) => {
  const waiting: Step[] = Array.from({ length: 20 }, () => [{ pauseMs: 250 }, ': keep-alive\n\n']).flat();
  const raw = [...waiting, event(contentChunk('late')), 'data: [DONE]\n\n'];
  const fake = await startFake(t, [{ raw }]);
  const limits = { idleTimeoutMs: 2500, queueTimeoutMs: 60_000 };
  assert.equal((await runHere(t, fake.baseUrl, limits)).outcome, 'late');
  const endless = await startTwo(t, { raw: [...waiting, ...waiting], hold: true });
  const ran = await runHere(t, endless.baseUrl, {
    models: twoModels(endless),
    idleTimeoutMs: 1000,
    queueTimeoutMs: 3000,
  });
  const [from, to] = endless.requests.map((request) => request.arrivedMs);
  assert.equal(ran.outcome, 'ok');
  assert.ok((to ?? 0) - (from ?? 0) >= 2000 && (to ?? 0) - (from ?? 0) < 9000);
});

test('a reader that is slow is not taken for a model that is stalled', async (t) => {
  const text = 'x'.repeat(64 * 1024);
  const fake = await startFake(t, [{ sse: Array.from({ length: 40 }, () => contentChunk(text)) }]);
  const models = [{ id: 'm', baseUrl: fake.baseUrl }];
  const session = { provider: 'file' as const, dir: makeFolder(t) };
  const types: string[] = [];
  for await (const one of run({ prompt: 'x', models, session, idleTimeoutMs: 2500 })) {
    // Much more waits than is read ahead, so meanwhile nothing is taken from the model.
    if (one.type === 'token' && !types.includes('token'))
      await new Promise((resolve) => setTimeout(resolve, 5500));
    types.push(one.type);
  }
  assert.equal(types.at(-1), 'done');
  assert.equal(fake.requests.length, 1);
});
