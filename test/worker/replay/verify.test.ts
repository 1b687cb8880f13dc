import assert from 'node:assert/strict';
import { copyFileSync, openSync, readFileSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { type TestContext, test } from 'node:test';
import { fileURLToPath } from 'node:url';
import { createSpending } from '../../../worker/budget.ts';
import { createConversation } from '../../../worker/conversation.ts';
import { contentChunk, toolCallChunk } from '../../../worker/index.ts';
import { createLedger } from '../../../worker/ledger.ts';
import type { ModelSource } from '../../../worker/model-source.ts';
import { type Verification, verifyLog } from '../../../worker/replay/verify.ts';
import { type RunContext, record } from '../../../worker/run-context.ts';
import { openFileStore } from '../../../worker/session/file.ts';
import { formatRecord } from '../../../worker/session/record.ts';
import { askTurn } from '../../../worker/turn.ts';
import { startFake } from '../scripted-run.ts';
import { type LogLine, makeFolder, readSession, runWorker } from '../worker-process.ts';

const OLD = fileURLToPath(new URL('../session/fixtures/written-by-0.1.0.jsonl', import.meta.url));
const verify = (path: string): Verification => verifyLog(openSync(path, 'r'));

/** A log with a compaction by summary, several runs and a fallback. */
async function writeLog(t: TestContext): Promise<{ path: string; records: LogLine[] }> {
  const home = makeFolder(t);
  const fake = await startFake(t, ({ body, index }) => {
    if (body.tools === undefined) return { sse: [contentChunk('They counted.')] };
    if (index === 1) return { status: 500, json: {} };
    return body.messages.at(-1).role === 'user'
      ? { sse: [toolCallChunk('bash', { command: 'seq 1 600' })] }
      : { sse: [contentChunk('counted 北🌍 '.repeat(100))] };
  });
  const env = { DJINN_INPUT_LIMIT: '6000', DJINN_OUTPUT_LIMIT: '900', DJINN_FALLBACKS: 'second' };
  for (const prompt of ['one', 'two', 'three', 'four', 'five']) {
    const end = await runWorker(t, ['-p', prompt, '--session-id', 's'], { home, env, baseUrl: fake.baseUrl });
    assert.equal(end.code, 0, end.stdout);
  }
  return { path: join(home, 'sessions', 's.jsonl'), records: readSession(home, 's') };
}

test('every request of a log is made again from its file alone, summaries and other models included', async (t) => {
  const { path, records } = await writeLog(t);
  const { requests, verified, unverified, problems } = verify(path);
  const logged = records.filter((one) => one.type === 'request');
  assert.deepEqual([verified, unverified, problems], [requests, [], []]);
  assert.equal(requests, logged.length);
  assert.ok(
    logged.some((one) => one.data.purpose === 'summary') && logged.some((one) => one.data.model === 'second'),
  );
});

test('a log of version 0.1.0 verifies, but for its summary requests, which that version did not describe', () => {
  const { records, requests, verified, unverified, problems } = verify(OLD);
  assert.deepEqual([records, requests, verified, unverified, problems], [47, 10, 9, [43], []]);
});

test('any byte changed in a log is found, and the record is named', async (t) => {
  const path = join(makeFolder(t), 'log');
  copyFileSync(OLD, path);
  const whole = readFileSync(path);
  for (let at = 7; at < whole.length; at += 97) {
    const changed = Buffer.from(whole);
    changed[at] = (changed[at] as number) ^ 1;
    writeFileSync(path, changed);
    const { problems } = verify(path);
    const before = whole.subarray(0, at).toString('latin1').split('\n').length - 1;
    const named = problems.some((one) => one.kind === 'damaged' && Math.abs(one.seq - before) <= 1);
    assert.ok(named, `byte ${at}: ${JSON.stringify(problems)}`);
  }
});

test('what was said cannot be changed with a new checksum either: the requests after it differ', async (t) => {
  const { path, records } = await writeLog(t);
  const lines = readFileSync(path, 'utf8').split('\n');
  const at = records.findIndex((one) => one.type === 'tool_result');
  const { seq, type, data } = records[at] as LogLine;
  const forged = { ...data, content: data.content.replace('300\n', '301\n') };
  lines[at] = formatRecord(seq, '2026-11-30T10:00:00.000Z', type as 'tool_result', forged);
  writeFileSync(path, lines.join('\n'));
  const { problems } = verify(path);
  const next = records.find((one, index) => index > at && one.type === 'request');
  assert.deepEqual([problems[0]?.kind, problems[0]?.seq], ['request', next?.seq]);
});

test('a record that was taken out is missed, and so is the end of a torn last one', async (t) => {
  const path = join(makeFolder(t), 'log');
  const lines = readFileSync(OLD, 'utf8').split('\n');
  writeFileSync(path, lines.filter((_, index) => index !== 20).join('\n'));
  assert.deepEqual(
    verify(path).problems.map(({ kind, seq, count }) => [kind, seq, count]),
    [['missing', 20, 1]],
  );
  writeFileSync(path, readFileSync(OLD).subarray(0, -30));
  assert.deepEqual(
    verify(path).problems.map(({ kind, seq }) => [kind, seq]),
    [['damaged', 46]],
  );
});

/** A run that has got to its first question. */
async function beginRun(t: TestContext): Promise<{ context: RunContext; sent: string[] }> {
  const sent: string[] = [];
  const source: ModelSource = {
    now: Date.now,
    sleep: async () => {},
    async complete({ body }) {
      sent.push(body);
      return { text: 'ok', reasoning: '', reasoningField: null, calls: [], finish: 'stop', usage: null };
    },
  };
  const store = openFileStore({ dir: makeFolder(t), sessionId: 's', onRecord: () => {} });
  const signal = new AbortController().signal;
  const context: RunContext = {
    store,
    source,
    signal,
    conversation: createConversation(),
    ledger: createLedger(),
    models: [{ id: 'm', baseUrl: 'http://127.0.0.1:1/v1', outputLimit: 100 }],
    cooling: new Map(),
    connections: {},
    tools: [],
    sessionId: 's',
    guards: [],
    spending: createSpending({}),
    repeats: 40,
    toolContext: { cwd: '/', signal, readOnly: false },
    idleTimeoutMs: 1000,
    queueTimeoutMs: 1000,
    redo: 'auto',
    totals: { turns: 0, usage: { inputTokens: 0, outputTokens: 0, totalTokens: 0 } },
    emit: () => {},
    drained: async () => {},
    log: () => {},
  };
  await record(context, 'context', { systemPrompt: 'Be brief.', tools: [] });
  await record(context, 'user', { text: 'hello' });
  return { context, sent };
}

test('a request that the log does not give is not sent, whatever changed in memory', async (t) => {
  const tamper: Record<string, (context: RunContext) => void> = {
    'a message that nobody logged': ({ conversation }) =>
      conversation.entries.push({ kind: 'user', seq: 99, data: { text: 'psst' } }),
    'a message that was taken away': ({ conversation }) => conversation.entries.shift(),
    'another text': ({ conversation }) => {
      const [first] = conversation.entries;
      if (first?.kind === 'user') first.data = { text: 'hullo' };
    },
    'another system prompt': ({ conversation }) => {
      conversation.context = { systemPrompt: 'Be long.', tools: [] };
    },
    'a summary': ({ conversation }) => {
      conversation.view = { roundsBefore: 0, resultsBefore: 0, summary: 'All is done.' };
    },
  };
  for (const [what, change] of Object.entries(tamper)) {
    const { context, sent } = await beginRun(t);
    await askTurn(context);
    await record(context, 'user', { text: 'again' });
    change(context);
    await assert.rejects(askTurn(context), { code: 'request_not_in_log' }, what);
    assert.equal(sent.length, 1, what);
    await context.store.close();
  }
});

test('what was said is frozen in memory, and is what its line holds', async (t) => {
  const { context } = await beginRun(t);
  const said = { text: 'x', images: [{ mediaType: 'image/png' as const, data: 'AAAA' }] };
  await record(context, 'user', said);
  said.text = 'y';
  const last = context.conversation.lastUser;
  assert.equal(last?.data.text, 'x');
  assert.throws(() => Object.assign(last?.data.images?.[0] ?? {}, { data: 'BBBB' }), TypeError);
  await context.store.close();
});
