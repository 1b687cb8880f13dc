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

const rounds = fc.array(fc.nat(4), { maxLength: 12 });
const anyView = fc.record({
  roundsBefore: fc.nat(60),
  resultsBefore: fc.nat(60),
  reasoningBefore: fc.nat(60),
  summary: fc.option(fc.string({ unit: 'binary', maxLength: 30 })),
});

test('C046: a view cut at any index gives a request that the strict rules take, and keeps the last prompt', () => {
  fc.assert(
    fc.property(rounds, fc.nat(600), anyView, (counts, size, view) => {
      check(converse(counts, size), view);
    }),
    { numRuns: 500 },
  );
});

test('every index of one long conversation, for each watermark', () => {
  const conversation = converse([1, 4, 0, 2, 3, 0, 1], 300);
  const last = conversation.entries.at(-1)?.seq ?? 0;
  const whole = { roundsBefore: 0, resultsBefore: 0, reasoningBefore: 0, summary: null };
  for (let seq = 0; seq <= last + 1; seq += 1) {
    check(conversation, { ...whole, roundsBefore: seq });
    check(conversation, { ...whole, resultsBefore: seq });
    check(conversation, { ...whole, reasoningBefore: seq });
    check(conversation, { roundsBefore: seq, resultsBefore: 30, summary: 'short' });
  }
});

test('reasoning that nobody asks for goes first, the reasoning that a provider wants back never goes alone', () => {
  const of = (field: 'reasoning' | 'reasoning_content'): Conversation => {
    const conversation = converse([1, 1, 1, 1], 100);
    for (const one of conversation.entries) {
      if (one.kind !== 'assistant') continue;
      one.data = { ...one.data, reasoning: 'thought '.repeat(50), reasoningField: field };
    }
    return conversation;
  };
  const plan = (field: 'reasoning' | 'reasoning_content'): View | null => {
    const conversation = of(field);
    const all = viewTokens(conversation, conversation.view, entry);
    return planTrim(conversation, { targetTokens: all - 150 }, entry);
  };
  const dropped = plan('reasoning');
  assert.deepEqual([dropped?.roundsBefore, dropped?.resultsBefore], [0, 0]);
  assert.ok((dropped?.reasoningBefore ?? 0) > 0);
  const spared = plan('reasoning_content');
  assert.ok((spared?.roundsBefore ?? 0) > 0, 'whole rounds go instead');
  const sent = renderMessages(of('reasoning_content'), spared ?? undefined);
  for (const one of sent)
    if (one.tool_calls !== undefined) assert.match(one.reasoning_content ?? '', /thought/);
});

test('the last round is touched only when nothing can be sent otherwise', () => {
  const conversation = converse([1, 1], 3000);
  const last = conversation.entries.at(-1)?.seq ?? 0;
  const wide = { ...entry, inputLimit: 100_000 };
  const view = planTrim(conversation, { targetTokens: 1 }, wide);
  assert.ok(view !== null && view.resultsBefore <= last && view.roundsBefore <= last);
  conversation.view = view;
  assert.equal(planTrim(conversation, { targetTokens: 1 }, wide), null);
  const refused = planTrim(conversation, { targetTokens: 1, refused: true }, wide);
  assert.ok((refused?.resultsBefore ?? 0) > last);
  check(conversation, refused as View);
  const narrow = planTrim(conversation, { targetTokens: 1 }, { ...entry, inputLimit: 500 });
  assert.ok((narrow?.resultsBefore ?? 0) > last);
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
