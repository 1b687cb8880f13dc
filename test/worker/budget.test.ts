import assert from 'node:assert/strict';
import { execFileSync } from 'node:child_process';
import { readFileSync } from 'node:fs';
import { join } from 'node:path';
import { test } from 'node:test';
import { setTimeout as sleep } from 'node:timers/promises';
import { contentChunk, httpError, stall, toolCallChunk, usageChunk } from '../../worker/index.ts';
import { readJob } from '../../worker/job-input.ts';
import { collectRun, endOf, makeTool } from './embedded-run.ts';
import { startFake } from './scripted-run.ts';
import { makeFolder, readSession, runWorker, terminal } from './worker-process.ts';

const job = {
  v: 1,
  jobId: 'job_1',
  attempt: 1,
  sessionId: 's',
  engine: 'djinn',
  prompt: 'x',
  models: [{ id: 'm', baseUrl: 'http://127.0.0.1:1/v1' }],
  cwd: '/',
  session: { provider: 'fd' },
  resumed: false,
  workspace: 'new',
};

let count = 0;
/** Calls that differ, so that none of these runs goes in circles. */
const another = () => ({ sse: [toolCallChunk('note', { n: count++ })] });
const note = makeTool('note', 'pure', ({ n }) => ({ content: `${n}`, isError: false }));

test('a run makes no more requests than its budget, repeated ones included, and can be resumed', async (t) => {
  const fake = await startFake(t, (request) =>
    request.index === 0 ? httpError(500) : request.index < 4 ? another() : { sse: [contentChunk('ok')] },
  );
  const session = { provider: 'file' as const, dir: makeFolder(t) };
  const events = await collectRun(t, fake, { tools: [note], budget: { requests: 3 }, session });
  assert.deepEqual(events.at(-1), {
    type: 'error',
    code: 'budget',
    message: 'the run has made the 3 requests of its budget',
    retryable: false,
  });
  assert.equal(fake.requests.length, 3);
  const log = readFileSync(join(session.dir, 's.jsonl'), 'utf8').trim().split('\n');
  assert.equal(JSON.parse(log.at(-1) ?? '').data.turns, 2);
  const resumed = await collectRun(t, fake, { tools: [note], budget: { requests: 3 }, session });
  assert.equal(endOf(resumed), 'done');
});

test('a budget that the run does not reach changes nothing', async (t) => {
  const fake = await startFake(t, [another(), { sse: [contentChunk('ok')] }]);
  const budget = { requests: 2, tokens: 1_000_000, wallMs: 600_000 };
  assert.equal(endOf(await collectRun(t, fake, { tools: [note], budget })), 'done');
});

test('no request follows once the tokens are spent, by the figures of the provider', async (t) => {
  const fake = await startFake(t, () => ({
    sse: [...another().sse, usageChunk(900, 100)],
  }));
  const events = await collectRun(t, fake, { tools: [note], budget: { tokens: 2500 } });
  const last = terminal(events);
  assert.match(last.type === 'error' ? last.message : '', /used 3000 of the 2500 tokens/);
  assert.equal(fake.requests.length, 3);
});

test('a provider that gives no figures is counted by an estimate', async (t) => {
  const fake = await startFake(t, () => ({
    raw: [
      `data: ${JSON.stringify({ choices: [{ index: 0, delta: { content: 'x'.repeat(24_000) }, finish_reason: null }] })}\n\n`,
      `data: ${JSON.stringify(toolCallChunk('note', { n: count++ }))}\n\n`,
      'data: {"choices":[{"index":0,"delta":{},"finish_reason":"tool_calls"}]}\n\ndata: [DONE]\n\n',
    ],
  }));
  assert.equal(endOf(await collectRun(t, fake, { tools: [note], budget: { tokens: 8_100 } })), 'budget');
  assert.equal(fake.requests.length, 1);
});

test('when the time is spent the request in hand is dropped', async (t) => {
  const fake = await startFake(t, [stall()]);
  const events = await collectRun(t, fake, { budget: { wallMs: 500 } });
  const last = terminal(events);
  assert.deepEqual(last, {
    type: 'error',
    code: 'budget',
    message: 'the run has taken the 500 ms of its budget',
    retryable: false,
  });
});

test('when the time is spent the tool in hand is ended, and the session is on disk', async (t) => {
  const fake = await startFake(t, [{ sse: [toolCallChunk('bash', { command: 'sleep 7654 & sleep 7654' })] }]);
  const home = makeFolder(t);
  const end = await runWorker(t, ['-p', 'x', '--session-id', 's', '--budget-seconds', '2'], {
    home,
    baseUrl: fake.baseUrl,
  });
  const last = terminal(end.events);
  assert.deepEqual([end.code, last.type === 'error' ? last.code : last], [1, 'budget']);
  assert.deepEqual(
    readSession(home, 's')
      .slice(-2)
      .map((line) => line.type),
    ['tool_result', 'end'],
  );
  await sleep(50);
  assert.equal(
    execFileSync('ps', ['-eo', 'stat=,args='], { encoding: 'utf8' }).match(/^[^Z\n]*sleep 7654$/m),
    null,
  );
});

test('the command line and the job line take budgets, and refuse wrong ones', async (t) => {
  const fake = await startFake(t, another);
  const home = makeFolder(t);
  const end = await runWorker(t, ['-p', 'x', '--budget-requests', '1'], { home, baseUrl: fake.baseUrl });
  const last = terminal(end.events);
  assert.deepEqual([end.code, last.type === 'error' ? last.code : last], [1, 'budget']);
  for (const wrong of ['0', '-1', '1.5', 'many', '']) {
    const refused = await runWorker(t, ['-p', 'x', '--budget-tokens', wrong], { home });
    assert.equal(refused.code, 2);
  }
  const budget = { requests: 1, tokens: 2, wallMs: 3 };
  assert.deepEqual(readJob(JSON.stringify({ ...job, budget })).budget, budget);
  assert.throws(() => readJob(JSON.stringify({ ...job, budget: { requests: '1' } })), /job\.budget/);
  for (const wrong of [{ requests: 0 }, { tokens: Number.NaN }, { wallMs: 2 ** 31 }, { wallMs: -1 }]) {
    assert.equal(endOf(await collectRun(t, fake, { budget: wrong })), 'settings');
  }
});
