import assert from 'node:assert/strict';
import { type TestContext, test } from 'node:test';
import fc from 'fast-check';
import { planTrim, viewTokens } from '../../../worker/compaction/trim.ts';
import { applyRecord, type Conversation, createConversation } from '../../../worker/conversation.ts';
import { findProblems } from '../../../worker/fake-openai/strict.ts';
import {
  contentChunk,
  httpError,
  type Reply,
  run,
  startFakeOpenAI,
  type Tool,
  toolCallChunk,
  type WorkerEvent,
} from '../../../worker/index.ts';
import { buildBody, renderMessages } from '../../../worker/messages.ts';
import type { SessionRecord, View } from '../../../worker/session/record.ts';
import { makeFolder, readSession, terminal } from '../worker-process.ts';

const entry = { id: 'm', baseUrl: 'http://h/v1', inputLimit: 1000 };

/** A conversation of rounds with the given numbers of calls; a 0 is a plain answer followed by a new prompt. */
function converse(rounds: number[], size: number): Conversation {
  const conversation = createConversation();
  let seq = 0;
  const add = (type: string, data: unknown): void => {
    seq += 1;
    applyRecord(conversation, { v: 1, seq, ts: '', type, data } as SessionRecord);
  };
  add('user', { text: `prompt ${seq}` });
  for (const count of rounds) {
    const calls = Array.from({ length: count }, (_, index) => ({
      id: `c${index}`,
      name: 'grep',
      arguments: '{}',
    }));
    add('assistant', {
      model: 'm',
      text: 'answer',
      reasoning: 'r',
      reasoningField: 'reasoning',
      calls,
      finish: 'stop',
      usage: null,
      requestLength: 0,
      requestImages: 0,
    });
    for (const call of calls)
      add('tool_result', { callId: call.id, name: 'grep', content: 'x'.repeat(size), isError: false });
    if (count === 0) add('user', { text: `prompt ${seq}` });
  }
  return conversation;
}

function check(conversation: Conversation, view: View): void {
  const messages = renderMessages(conversation, view);
  const body = JSON.parse(buildBody(entry, messages).text) as unknown;
  assert.deepEqual(findProblems(body), []);
  const prompts = conversation.entries.filter((one) => one.kind === 'user');
  const last = prompts.at(-1);
  assert.ok(
    messages.some((message) => message.content === last?.data.text),
    'the last prompt is gone',
  );
}

test('C046: wherever the cut falls, calls keep their results and the last prompt stays', () => {
  fc.assert(
    fc.property(
      fc.array(fc.nat(4), { maxLength: 12 }),
      fc.nat(600),
      fc.array(fc.nat(6000), { maxLength: 3 }),
      (rounds, size, targets) => {
        const conversation = converse(rounds, size);
        for (const target of targets) {
          const before = viewTokens(conversation, conversation.view, entry);
          const view = planTrim(conversation, { targetTokens: target }, entry);
          if (view === null) continue;
          check(conversation, view);
          assert.ok(viewTokens(conversation, view, entry) < before, 'a trim must shrink');
          applyRecord(conversation, {
            v: 1,
            seq: 9999,
            ts: '',
            type: 'compact',
            data: { method: 'trim', from: 0, to: 0, view },
          });
        }
      },
    ),
  );
});

test('every watermark between two records gives a valid request', () => {
  const conversation = converse([1, 4, 0, 2, 3, 0, 1], 300);
  for (let seq = 0; seq < 30; seq += 1) {
    check(conversation, { roundsBefore: seq, resultsBefore: 0, summary: null });
    check(conversation, { roundsBefore: seq, resultsBefore: 30, summary: 'short' });
  }
});

test('old results go before whole rounds do, and no more than needed', () => {
  const conversation = converse([1, 1, 1, 1], 2000);
  const all = viewTokens(conversation, conversation.view, entry);
  const view = planTrim(conversation, { targetTokens: all - 300 }, entry);
  assert.deepEqual([view?.roundsBefore, (view?.resultsBefore ?? 0) > 0], [0, true]);
  assert.equal(planTrim(converse([1], 10), { targetTokens: 1 }, entry), null);
});

const big: Tool = {
  name: 'big',
  description: 'much text',
  parameters: { type: 'object', properties: {} },
  effect: 'pure',
  run: () => Promise.resolve({ content: 'word '.repeat(400), isError: false }),
};

interface Compacted {
  events: WorkerEvent[];
  summaries: number;
  dir: string;
}

/** Twelve rounds of 2,000 characters against a small input limit; `summary` answers the summary requests. */
async function runLong(t: TestContext, summary: Reply, inputLimit: number): Promise<Compacted> {
  let summaries = 0;
  let rounds = 0;
  const fake = await startFakeOpenAI(({ body }) => {
    if (body.tools === undefined) {
      summaries += 1;
      return summary;
    }
    rounds += 1;
    return rounds <= 12
      ? { sse: [contentChunk('step '.repeat(80)), toolCallChunk('big')] }
      : { sse: [contentChunk('ok')] };
  });
  t.after(() => fake.stop());
  const home = makeFolder(t);
  const events: WorkerEvent[] = [];
  const session = { provider: 'file' as const, dir: `${home}/sessions` };
  const models = [{ id: 'm', baseUrl: fake.baseUrl, inputLimit }];
  for await (const event of run({ prompt: 'the prompt', sessionId: 's', models, tools: [big], session }))
    events.push(event);
  assert.ok(fake.requests.every((request) => request.problems.length === 0));
  const last = fake.requests.filter((request) => request.body.tools !== undefined).at(-1);
  assert.ok(last?.body.messages.some((message: { content: string }) => message.content === 'the prompt'));
  return { events, summaries, dir: home };
}
const compactions = (events: WorkerEvent[]): WorkerEvent[] =>
  events.filter((event) => event.type === 'compact');

test('a long conversation is summed up by the model and goes on', async (t) => {
  const { events, summaries, dir } = await runLong(t, { sse: [contentChunk('we did steps')] }, 2000);
  assert.equal(terminal(events).type, 'done');
  const compacted = compactions(events);
  assert.ok(compacted.length > 0 && summaries > 0);
  for (const event of compacted) assert.ok(event.type === 'compact' && event.to < event.from);
  assert.ok(compacted.some((event) => event.type === 'compact' && event.method === 'summary'));
  assert.ok(
    readSession(dir, 's').some(
      (record) => record.type === 'compact' && record.data.view.summary === 'we did steps',
    ),
  );
});

test('C047: a summary that is empty, refused or too long costs at most two requests and becomes a trim', async (t) => {
  const replies: Reply[] = [
    { sse: [contentChunk('')] },
    httpError(400, { message: 'no' }),
    { sse: [contentChunk('long '.repeat(5000))] },
  ];
  for (const reply of replies) {
    const { events, summaries } = await runLong(t, reply, 2000);
    assert.equal(terminal(events).type, 'done');
    const compacted = compactions(events);
    assert.ok(
      compacted.length > 0 && compacted.every((event) => event.type === 'compact' && event.method === 'trim'),
    );
    assert.ok(summaries <= 2 * compacted.length, `${summaries} for ${compacted.length}`);
  }
});

test('an overflow compacts and asks the same model again; one that stays ends with its own code', async (t) => {
  let refused = 0;
  const overflow = httpError(400, {
    code: 'context_length_exceeded',
    message: 'maximum context length is 10',
  });
  const script = (times: number) => {
    refused = 0;
    let rounds = 0;
    return ({ body }: { body: { tools?: unknown } }): Reply => {
      if (body.tools === undefined) return { sse: [contentChunk('sum')] };
      rounds += 1;
      if (rounds <= 4) return { sse: [contentChunk('step'), toolCallChunk('big')] };
      refused += 1;
      return refused <= times ? overflow : { sse: [contentChunk('ok')] };
    };
  };
  for (const [times, expected] of [
    [1, 'done'],
    [99, 'context_overflow'],
  ] as const) {
    const fake = await startFakeOpenAI(script(times));
    t.after(() => fake.stop());
    const events: WorkerEvent[] = [];
    const session = { provider: 'file' as const, dir: makeFolder(t) };
    const models = [
      { id: 'm1', baseUrl: fake.baseUrl },
      { id: 'm2', baseUrl: fake.baseUrl },
    ];
    for await (const event of run({ prompt: 'p', models, tools: [big], session })) events.push(event);
    const last = terminal(events);
    assert.equal(last.type === 'error' ? last.code : last.type, expected);
    assert.ok(compactions(events).length >= 1 && refused <= 3);
    assert.ok(fake.requests.every((request) => request.body.model === 'm1'));
  }
});
