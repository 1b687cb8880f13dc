import assert from 'node:assert/strict';
import { rmSync } from 'node:fs';
import { join } from 'node:path';
import type { Duplex } from 'node:stream';
import { type TestContext, test } from 'node:test';
import { setTimeout as sleep } from 'node:timers/promises';
import {
  contentChunk,
  cut,
  type FakeOpenAI,
  type Job,
  type Script,
  startFakeOpenAI,
  toolCallChunk,
} from '../../worker/index.ts';
import { createRecordKeeper } from './record-keeper.ts';
import {
  makeFolder,
  readSession,
  startWorker,
  terminal,
  type WorkerEnd,
  type WorkerProcess,
} from './worker-process.ts';

interface Supervisor {
  home: string;
  fake: FakeOpenAI;
  socketPath: string;
  durable: number[];
  /** Starts the job and leaves stdin open, as a supervisor may. */
  start(job?: Partial<Job>): WorkerProcess;
}

async function supervise(t: TestContext, script: Script): Promise<Supervisor> {
  const home = makeFolder(t);
  const socketPath = join(home, 'model.sock');
  const fake = await startFakeOpenAI(script, { socketPath });
  t.after(() => fake.stop());
  const { mkdirSync } = await import('node:fs');
  mkdirSync(join(home, 'sessions'));
  const keeper = createRecordKeeper(join(home, 'sessions', 's.jsonl'));
  return {
    home,
    fake,
    socketPath,
    durable: keeper.durable,
    start(more = {}) {
      const fd = keeper.open();
      const env = { DJINN_API_KEY: '', DJINN_HOME: '/does/not/exist' };
      const worker = startWorker(t, ['--job', '-'], {
        home,
        env,
        stdio: ['pipe', 'pipe', 'pipe', 'pipe', fd],
      });
      keeper.close(fd);
      keeper.attach(worker.child.stdio[3] as Duplex);
      const job: Job = {
        v: 1,
        jobId: 'job_1',
        attempt: 1,
        sessionId: 's',
        engine: 'djinn',
        prompt: 'hello',
        models: [{ id: 'm', baseUrl: fake.baseUrl, gateway: true }],
        cwd: home,
        session: { provider: 'fd' },
        resumed: false,
        workspace: 'new',
        ...more,
      };
      worker.child.stdin?.on('error', () => {});
      worker.child.stdin?.write(`${JSON.stringify(job)}\nnot read`);
      return worker;
    },
  };
}

const doneText = (end: WorkerEnd): string => {
  const last = terminal(end.events);
  assert.equal(last.type, 'done', `${JSON.stringify(last)} ${end.stderr}`);
  return last.type === 'done' ? last.text : '';
};

test('a job from stdin runs without waiting for its end; records go out durable before request and command', async (t) => {
  const supervisor = await supervise(t, ({ index }) =>
    index === 0
      ? { sse: [toolCallChunk('bash', { command: 'ls -l /proc/self/fd | wc -l; cat' })] }
      : { sse: [contentChunk('ok')] },
  );
  const end = await supervisor.start().ended;
  assert.equal(doneText(end), 'ok');
  assert.deepEqual(end.events[0], {
    type: 'session',
    sessionId: 's',
    resumed: false,
    engine: 'djinn',
    model: 'm',
    workspace: 'new',
  });
  const records = readSession(supervisor.home, 's');
  assert.deepEqual(
    records.map((record) => record.seq),
    records.map((_, index) => index + 1),
  );
  const durable = records
    .filter((record) => supervisor.durable.includes(record.seq))
    .map((record) => record.type);
  assert.deepEqual(durable, ['request', 'tool_started', 'request']);
});

test('a tool inherits neither the records nor the log of the session', async (t) => {
  const supervisor = await supervise(t, ({ index }) =>
    index === 0
      ? { sse: [toolCallChunk('bash', { command: 'for f in /proc/$$/fd/*; do readlink $f; done' })] }
      : { sse: [contentChunk('ok')] },
  );
  const end = await supervisor.start().ended;
  const result = end.events.find((event) => event.type === 'tool_result');
  const links = result?.type === 'tool_result' ? result.content : '';
  assert.ok(!links.includes('jsonl') && !links.includes('socket'), links);
});

test('a second attempt of the same job does not say its prompt twice', async (t) => {
  const supervisor = await supervise(t, ({ index }) =>
    index === 0 ? { sse: [], complete: false, hold: true } : { sse: [contentChunk('ok')] },
  );
  const first = supervisor.start();
  for (let tries = 0; tries < 500 && supervisor.fake.requests.length === 0; tries += 1) await sleep(20);
  first.child.kill('SIGKILL');
  await first.ended;
  const second = await supervisor.start({ attempt: 2, resumed: true }).ended;
  assert.equal(doneText(second), 'ok');
  const users = supervisor.fake.requests
    .at(-1)
    ?.body.messages.filter((one: { role: string }) => one.role === 'user');
  assert.deepEqual(users, [{ role: 'user', content: 'hello' }]);
  const next = await supervisor.start({ jobId: 'job_2', prompt: 'more', resumed: true }).ended;
  assert.deepEqual(
    [next.events[0]?.type === 'session' && next.events[0].resumed, doneText(next)],
    [true, 'ok'],
  );
  const again = await supervisor.start({ jobId: 'job_2', attempt: 2, prompt: 'more', resumed: true }).ended;
  const last = terminal(again.events);
  assert.deepEqual(last.type === 'done' ? [last.turns, last.text] : last, [0, 'ok']);
});

test('a gateway that is away is waited for: same request, same model, text streamed so far is dropped', async (t) => {
  const supervisor = await supervise(t, [cut([contentChunk('half')])]);
  const worker = supervisor.start({
    models: [
      { id: 'm', baseUrl: supervisor.fake.baseUrl, gateway: true },
      { id: 'other', baseUrl: supervisor.fake.baseUrl, gateway: true },
    ],
  });
  await worker.seen((event) => event.type === 'token');
  const firstBody = supervisor.fake.requests[0]?.text;
  await supervisor.fake.stop();
  await sleep(1500);
  rmSync(supervisor.socketPath, { force: true });
  const back = await startFakeOpenAI([{ sse: [contentChunk('whole')] }], {
    socketPath: supervisor.socketPath,
  });
  t.after(() => back.stop());
  const end = await worker.ended;
  assert.equal(doneText(end), 'whole');
  assert.equal(back.requests[0]?.text, firstBody);
  const fallbacks = end.events.filter((event) => event.type === 'fallback');
  assert.ok(fallbacks.length >= 1);
  for (const event of fallbacks)
    assert.deepEqual(event, { type: 'fallback', from: 'm', to: 'm', reason: 'gateway', discard: true });
  assert.equal(readSession(supervisor.home, 's').filter((record) => record.type === 'request').length, 1);
});

test('sandboxMode read-only shows only tools that change nothing', async (t) => {
  const supervisor = await supervise(t, [{ sse: [contentChunk('ok')] }]);
  await supervisor.start({ sandboxMode: 'read-only', tools: { deny: ['grep'] } }).ended;
  const names = supervisor.fake.requests[0]?.body.tools.map(
    (tool: { function: { name: string } }) => tool.function.name,
  );
  assert.deepEqual(names.sort(), ['glob', 'read_file', 'read_image']);
});

test('images of the prompt reach the model as parts of the user message', async (t) => {
  const supervisor = await supervise(t, [{ sse: [contentChunk('ok')] }]);
  await supervisor.start({ images: [{ mediaType: 'image/png', data: 'AAAA' }] }).ended;
  assert.deepEqual(supervisor.fake.requests[0]?.body.messages.at(-1).content, [
    { type: 'text', text: 'hello' },
    { type: 'image_url', image_url: { url: 'data:image/png;base64,AAAA' } },
  ]);
});

test('a supervisor that closes the records ends the job with a storage error', async (t) => {
  const supervisor = await supervise(t, ({ index }) =>
    index === 0 ? { sse: [toolCallChunk('bash', { command: 'sleep 1' })] } : { sse: [contentChunk('ok')] },
  );
  const worker = supervisor.start();
  await worker.seen((event) => event.type === 'tool_call');
  (worker.child.stdio[3] as Duplex).destroy();
  const last = terminal((await worker.ended).events);
  assert.equal(last.type === 'error' ? last.code : JSON.stringify(last), 'storage');
});
