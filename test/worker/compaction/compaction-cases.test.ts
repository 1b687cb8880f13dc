// Compaction as a run meets it: cuts at every place, summaries that do not help, Chinese, a kill in the middle.
import assert from 'node:assert/strict';
import { statSync } from 'node:fs';
import { join } from 'node:path';
import { type TestContext, test } from 'node:test';
import {
  contentChunk,
  type FakeOpenAI,
  finishChunk,
  httpError,
  type Reply,
  run,
  type Tool,
  toolCallChunk,
  type WorkerEvent,
} from '../../../worker/index.ts';
import { doneText, type Ran, runHere, startFake } from '../scripted-run.ts';
import { makeFolder, readSession, runWorker, startWorker } from '../worker-process.ts';

const big: Tool = {
  name: 'big',
  description: 'much text',
  parameters: { type: 'object', properties: {} },
  effect: 'pure',
  run: async () => ({ content: 'word '.repeat(120), isError: false }),
};
const isSummary = (body: { tools?: unknown }): boolean => body.tools === undefined;
const noProblems = (fake: FakeOpenAI): void =>
  assert.deepEqual(
    fake.requests.flatMap((request) => request.problems),
    [],
  );

test('C046: parallel batches, every threshold, two prompts each resumed from disk: calls keep their results, the prompt stays', async (t) => {
  const check = async (inputLimit: number): Promise<number> => {
    let rounds = 0;
    const fake = await startFake(t, ({ body }) => {
      if (isSummary(body)) return { sse: [contentChunk('sum')] };
      rounds += 1;
      if (rounds % 7 === 0) return { sse: [contentChunk('done')] };
      const calls = Array.from({ length: 1 + (rounds % 4) }, (_, index) =>
        toolCallChunk('big', {}, { id: `c${index}`, index }),
      );
      return { sse: [contentChunk('step '), ...calls] };
    });
    const models = [{ id: 'm', baseUrl: fake.baseUrl, inputLimit }];
    const home = makeFolder(t);
    let compactions = 0;
    for (const prompt of [
      'the first prompt, verbatim',
      'the second prompt, verbatim',
      'the third prompt, verbatim',
    ]) {
      const ran = await runHere(t, fake.baseUrl, { models, tools: [big], home, prompt });
      assert.equal(ran.outcome, 'done', `${inputLimit}`);
      compactions += ran.events.filter((one) => one.type === 'compact').length;
      const turns = fake.requests.filter((request) => !isSummary(request.body));
      assert.ok(
        turns.at(-1)?.body.messages.some((one: { content: unknown }) => one.content === prompt),
        prompt,
      );
    }
    noProblems(fake);
    return compactions;
  };
  const limits = Array.from({ length: 24 }, (_, index) => 700 + 110 * index);
  const counts = await Promise.all(limits.map(check));
  assert.ok(counts.filter((count) => count >= 2).length > 10, counts.join(' '));
});

/** Twelve rounds against a small input limit. */
async function runLong(
  t: TestContext,
  summary: Reply,
): Promise<Ran & { summaries: number; logBytes: number }> {
  let [summaries, rounds] = [0, 0];
  const fake = await startFake(t, ({ body }) => {
    if (isSummary(body)) {
      summaries += 1;
      return summary;
    }
    rounds += 1;
    return rounds <= 12
      ? { sse: [contentChunk('step '.repeat(40)), toolCallChunk('big')] }
      : { sse: [contentChunk('ok')] };
  });
  const models = [{ id: 'm', baseUrl: fake.baseUrl, inputLimit: 1800 }];
  const ran = await runHere(t, fake.baseUrl, { models, tools: [big] });
  noProblems(fake);
  return { ...ran, summaries, logBytes: statSync(join(ran.home, 'sessions/s.jsonl')).size };
}

test('C047: a summary that does not help costs at most two requests each time, and becomes a trim', async (t) => {
  const replies: [string, Reply][] = [
    ['empty', { sse: [contentChunk('')] }],
    ['cut before its first word', { sse: [finishChunk('length')] }],
    ['cut', { sse: [contentChunk('we did half'), finishChunk('length')] }],
    ['refused', httpError(400, { message: 'no' })],
    ['no shorter than what it stands for', { sse: [contentChunk('long '.repeat(1200))] }],
    ['longer than its input', { sse: [contentChunk('long '.repeat(8000))] }],
    ['a call', { sse: [contentChunk('well'), toolCallChunk('big')] }],
    ['quota', httpError(429, { code: 'insufficient_quota' })],
    ['too long itself', httpError(400, { code: 'context_length_exceeded' })],
  ];
  const check = async ([name, reply]: [string, Reply]): Promise<void> => {
    const { outcome, events, summaries, logBytes } = await runLong(t, reply);
    assert.equal(outcome, 'ok', name);
    const compacted = events.flatMap((one) => (one.type === 'compact' ? [one] : []));
    assert.ok(
      compacted.length > 0 && compacted.every((one) => one.method === 'trim' && one.to < one.from),
      name,
    );
    assert.ok(
      summaries >= 1 && summaries <= 2 * compacted.length,
      `${name}: ${summaries} for ${compacted.length}`,
    );
    const ownBytes = 25_000;
    assert.ok(logBytes < ownBytes + 25_000 * compacted.length, `${name}: the log has ${logBytes} bytes`);
    assert.ok(!events.some((one) => one.type === 'token' && /half|long|well/.test(one.text)), name);
  };
  await Promise.all(replies.map(check));
});

test('a summary whose first try fails is asked for once more, not at once', async (t) => {
  const times: number[] = [];
  let rounds = 0;
  const fake = await startFake(t, ({ body }) => {
    if (isSummary(body)) {
      times.push(Date.now());
      return times.length % 2 === 1
        ? httpError(429, {}, { 'retry-after-ms': '300' })
        : { sse: [contentChunk('sum')] };
    }
    rounds += 1;
    return rounds <= 8
      ? { sse: [contentChunk('step '.repeat(40)), toolCallChunk('big')] }
      : { sse: [contentChunk('ok')] };
  });
  const models = [{ id: 'm', baseUrl: fake.baseUrl, inputLimit: 1800 }];
  const ran = await runHere(t, fake.baseUrl, { models, tools: [big] });
  assert.equal(ran.outcome, 'ok');
  assert.ok(ran.events.some((one) => one.type === 'compact' && one.method === 'summary'));
  assert.ok((times[1] ?? 0) - (times[0] ?? 0) >= 290);
});

test('the request for a summary is itself bounded, also in Chinese, and its second try is half as long', async (t) => {
  const text = '请把这个很长的输出再读一遍。'.repeat(40);
  const chinese: Tool = { ...big, run: async () => ({ content: text, isError: false }) };
  let rounds = 0;
  const lengths: number[] = [];
  const inputLimit = 2500;
  const fake = await startFake(t, ({ body, text: sent }) => {
    if (isSummary(body)) {
      lengths.push(sent.length);
      return httpError(500);
    }
    rounds += 1;
    // Without figures, so that the guess for Chinese is what bounds it.
    const none = { choices: [], usage: { prompt_tokens: null } };
    return {
      sse: rounds <= 6 ? [contentChunk(text), toolCallChunk('big'), none] : [contentChunk('ok'), none],
    };
  });
  const models = [{ id: 'm', baseUrl: fake.baseUrl, inputLimit }];
  // The prompt is long: what leaves is much more than one summary request may hold.
  const ran = await runHere(t, fake.baseUrl, { models, tools: [chinese] });
  assert.equal(ran.outcome, 'ok');
  // The instructions are English and always the same; the rest is Chinese at 0.8 tokens each.
  for (const length of lengths) assert.ok((length - 900) * 0.8 < inputLimit * 0.6, `${length} units`);
  assert.ok(
    lengths.some((length, index) => index % 2 === 1 && length < (lengths[index - 1] ?? 0) * 0.9),
    lengths.join(' '),
  );
});

test('a Chinese conversation stays below the limit although no provider says a figure', async (t) => {
  const chinese: Tool = {
    ...big,
    run: async () => ({ content: '读取的内容很长，'.repeat(60), isError: false }),
  };
  const inputLimit = 3000;
  let rounds = 0;
  const fake = await startFake(t, ({ body }) => {
    if (isSummary(body)) return { sse: [contentChunk('摘要'), { choices: [], usage: null }] };
    rounds += 1;
    const none = { choices: [], usage: { prompt_tokens: null } };
    return { sse: rounds <= 15 ? [toolCallChunk('big'), none] : [contentChunk('好'), none] };
  });
  const ran = await runHere(t, fake.baseUrl, {
    models: [{ id: 'm', baseUrl: fake.baseUrl, inputLimit }],
    tools: [chinese],
  });
  assert.equal(ran.outcome, '好');
  for (const { text } of fake.requests) {
    const wide = [...text].filter((one) => one > '\u2fff').length;
    const tokens = 0.7 * wide + 0.25 * (text.length - wide);
    assert.ok(tokens < inputLimit, `${Math.round(tokens)} tokens`);
  }
});

test('what must stay is more than the trigger: the run goes on without a loop of compactions', async (t) => {
  let [rounds, summaries] = [0, 0];
  const fake = await startFake(t, ({ body }) => {
    if (isSummary(body)) summaries += 1;
    if (isSummary(body)) return { sse: [contentChunk('sum')] };
    rounds += 1;
    return { sse: rounds <= 5 ? [toolCallChunk('big')] : [contentChunk('ok')] };
  });
  const models = [{ id: 'm', baseUrl: fake.baseUrl, inputLimit: 900 }];
  const ran = await runHere(t, fake.baseUrl, { models, tools: [big], prompt: 'long prompt '.repeat(160) });
  assert.equal(ran.outcome, 'ok');
  assert.ok(rounds === 6 && summaries === 0, `${rounds} rounds, ${summaries} summaries`);
  assert.ok(ran.events.filter((one) => one.type === 'compact').length <= 6);
});

test('a kill while the summary is being written loses nothing: the resumed run compacts again and ends', async (t) => {
  let rounds = 0;
  let held = true;
  const fake = await startFake(t, ({ body }) => {
    if (isSummary(body))
      return held
        ? { raw: [`data: ${JSON.stringify(contentChunk('half a summ'))}\n\n`], hold: true }
        : { sse: [contentChunk('the sum')] };
    rounds += 1;
    return rounds <= 8
      ? { sse: [contentChunk('step '.repeat(60)), toolCallChunk('glob', { pattern: '*' })] }
      : { sse: [contentChunk('ok')] };
  });
  const home = makeFolder(t);
  const env = { DJINN_INPUT_LIMIT: '2600' };
  const worker = startWorker(t, ['-p', 'the prompt', '--session-id', 's'], {
    home,
    baseUrl: fake.baseUrl,
    env,
  });
  while (!fake.requests.some((request) => isSummary(request.body)))
    await new Promise((resolve) => setTimeout(resolve, 20));
  worker.child.kill('SIGKILL');
  await worker.ended;
  assert.ok(!readSession(home, 's').some((line) => line.type === 'compact'));
  held = false;
  const end = await runWorker(t, ['--session-id', 's'], { home, baseUrl: fake.baseUrl, env });
  assert.equal(doneText(end), 'ok');
  noProblems(fake);
  const views = readSession(home, 's').filter((line) => line.type === 'compact');
  assert.ok(views.some((line) => line.data.view.summary === 'the sum'));
  assert.ok(!fake.requests.some((request) => request.text.includes('half a summ')));
  assert.ok(
    fake.requests.at(-1)?.body.messages.some((one: { content: unknown }) => one.content === 'the prompt'),
  );
});

test('a run that is cancelled in the middle of a summary ends at once', async (t) => {
  let rounds = 0;
  const controller = new AbortController();
  const fake = await startFake(t, ({ body }) => {
    if (isSummary(body)) {
      setTimeout(() => controller.abort(), 50);
      return { fault: 'stall' };
    }
    rounds += 1;
    return rounds <= 12
      ? { sse: [contentChunk('step '.repeat(60)), toolCallChunk('big')] }
      : { sse: [contentChunk('ok')] };
  });
  const models = [{ id: 'm', baseUrl: fake.baseUrl, inputLimit: 1800 }];
  const session = { provider: 'file' as const, dir: makeFolder(t) };
  const events: WorkerEvent[] = [];
  for await (const one of run({ prompt: 'x', models, tools: [big], session, signal: controller.signal }))
    events.push(one);
  const last = events.at(-1);
  assert.equal(last?.type === 'error' ? last.code : '', 'cancelled');
  assert.ok(!events.some((one) => one.type === 'compact'));
});

test('a result that is larger than the whole window is left out too, and the model is told so instead of the run ending', async (t) => {
  const huge: Tool = { ...big, run: async () => ({ content: 'word '.repeat(4000), isError: false }) };
  for (const inputLimit of [1500, undefined]) {
    const fake = await startFake(t, ({ body, text }) => {
      if (isSummary(body)) return { sse: [contentChunk('sum')] };
      if (text.length > 6000) return httpError(400, { message: 'maximum context length is 1500 tokens' });
      const { messages } = body;
      if (messages.at(-1).role === 'user') return { sse: [toolCallChunk('big')] };
      return { sse: [contentChunk(messages.at(-1).content)] };
    });
    const models = [{ id: 'm', baseUrl: fake.baseUrl, ...(inputLimit === undefined ? {} : { inputLimit }) }];
    const ran = await runHere(t, fake.baseUrl, { models, tools: [huge] });
    assert.match(ran.outcome, /^\[20000 characters of output were left out/);
    // With a limit that is known, nothing too long is even sent.
    assert.equal(fake.requests.length, inputLimit === undefined ? 3 : 2);
    noProblems(fake);
  }
});
