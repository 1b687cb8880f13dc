import assert from 'node:assert/strict';
import { appendFileSync, existsSync, readFileSync, truncateSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { type TestContext, test } from 'node:test';
import { setTimeout as sleep } from 'node:timers/promises';
import {
  contentChunk,
  deltaChunk,
  type FakeOpenAI,
  type Script,
  startFakeOpenAI,
  toolCallChunk,
} from '../../worker/index.ts';
import {
  makeFolder,
  readSession,
  runWorker,
  startWorker,
  terminal,
  type WorkerEnd,
  type WorkerProcess,
} from './worker-process.ts';

interface Scene {
  home: string;
  fake: FakeOpenAI;
  start(...args: string[]): WorkerProcess;
  run(...args: string[]): Promise<WorkerEnd>;
}

async function setScene(t: TestContext, script: Script): Promise<Scene> {
  const fake = await startFakeOpenAI(script);
  t.after(() => fake.stop());
  const home = makeFolder(t);
  const options = { baseUrl: fake.baseUrl, home };
  const words = (args: string[]): string[] => ['--session-id', 's', ...args];
  return {
    home,
    fake,
    start: (...args) => startWorker(t, words(args), options),
    run: (...args) => runWorker(t, words(args), options),
  };
}

async function until(what: string, holds: () => boolean): Promise<void> {
  for (let tries = 0; tries < 1000; tries += 1) {
    if (holds()) return;
    await sleep(20);
  }
  throw new Error(`never: ${what}`);
}

const lines = (path: string): number =>
  existsSync(path) ? readFileSync(path, 'utf8').split('\n').length - 1 : 0;
const kill = async (worker: WorkerProcess): Promise<void> => {
  worker.child.kill('SIGKILL');
  await worker.ended;
};
const lastBody = (
  scene: Scene,
): { role: string; content: string; tool_call_id?: string; tool_calls?: unknown }[] =>
  scene.fake.requests.at(-1)?.body.messages;
const isDone = (end: WorkerEnd): boolean => {
  const last = terminal(end.events);
  assert.equal(last.type, 'done', JSON.stringify(last));
  return end.code === 0;
};
const accepted = (scene: Scene): boolean =>
  scene.fake.requests.every((request) => request.problems.length === 0);

test('a session goes on with all that was said, and says that it does', async (t) => {
  const scene = await setScene(t, [{ sse: [contentChunk('one')] }, { sse: [contentChunk('two')] }]);
  assert.ok(isDone(await scene.run('-p', 'first')));
  const second = await scene.run('-p', 'second');
  assert.ok(isDone(second));
  assert.deepEqual(second.events[0], {
    type: 'session',
    sessionId: 's',
    resumed: true,
    engine: 'djinn',
    model: 'deepseek-chat',
  });
  assert.deepEqual(
    lastBody(scene)
      .slice(1)
      .map((message) => `${message.role}: ${message.content}`),
    ['user: first', 'assistant: one', 'user: second'],
  );
});

test('C038: a command during which the worker was killed is not run again, and the round goes on', async (t) => {
  const scene = await setScene(t, ({ index }) =>
    index === 0
      ? { sse: [toolCallChunk('bash', { command: `echo x >> ran; exec sleep 60` })] }
      : { sse: [contentChunk('ok')] },
  );
  const first = scene.start('-p', 'go');
  await until('the command runs', () => lines(join(scene.home, 'ran')) === 1);
  await kill(first);
  const second = await scene.run('-p', 'go on');
  assert.ok(isDone(second) && accepted(scene));
  const result = lastBody(scene).find((message) => message.role === 'tool');
  assert.match(result?.content ?? '', /interrupted.*may have run in part/);
  assert.equal(lines(join(scene.home, 'ran')), 1);
  assert.equal(lastBody(scene).at(-1)?.content, 'go on');
});

test('an interrupted round is finished without a new prompt too', async (t) => {
  const scene = await setScene(t, ({ index }) =>
    index === 0
      ? { sse: [toolCallChunk('bash', { command: 'echo x >> ran; exec sleep 60' })] }
      : { sse: [contentChunk('ok')] },
  );
  const first = scene.start('-p', 'go');
  await until('the command runs', () => lines(join(scene.home, 'ran')) === 1);
  await kill(first);
  assert.ok(isDone(await scene.run()) && accepted(scene));
  const again = await scene.run();
  const last = terminal(again.events);
  assert.deepEqual(last.type === 'done' ? [last.turns, last.text] : last, [0, 'ok']);
});

test('`--redo always` runs an interrupted command again', async (t) => {
  const scene = await setScene(t, ({ index }) =>
    index === 0
      ? { sse: [toolCallChunk('bash', { command: 'echo x >> ran; [ -e go ] || exec sleep 60' })] }
      : { sse: [contentChunk('ok')] },
  );
  const first = scene.start('-p', 'go');
  await until('the command runs', () => lines(join(scene.home, 'ran')) === 1);
  await kill(first);
  writeFileSync(join(scene.home, 'go'), '');
  assert.ok(isDone(await scene.run('--redo', 'always')));
  assert.equal(lines(join(scene.home, 'ran')), 2);
});

/** Cuts the log after the first record that the test accepts, as a kill at that moment would have left it. */
function cutLog(scene: Scene, accept: (type: string) => boolean): void {
  const path = join(scene.home, 'sessions', 's.jsonl');
  const text = readFileSync(path, 'utf8');
  let offset = 0;
  let end = 0;
  for (const line of text.split('\n').slice(0, -1)) {
    offset += Buffer.byteLength(line) + 1;
    if (end === 0 && accept((JSON.parse(line) as { type: string }).type)) end = offset;
  }
  truncateSync(path, end);
}

test('after a kill in the middle of a write the file decides: as before, as intended, or neither', async (t) => {
  for (const [now, expected, final] of [
    ['old', /./, 'new'],
    ['new', /was written/, 'new'],
    ['other', /changed by something else/, 'other'],
  ] as const) {
    const scene = await setScene(t, ({ index }) =>
      index === 0
        ? { sse: [toolCallChunk('write_file', { path: 'f', content: 'new' })] }
        : { sse: [contentChunk('ok')] },
    );
    const file = join(scene.home, 'f');
    writeFileSync(file, 'old');
    assert.ok(isDone(await scene.run('-p', 'go')));
    cutLog(scene, (type) => type === 'tool_started');
    writeFileSync(file, now);
    assert.ok(isDone(await scene.run()) && accepted(scene));
    const result = lastBody(scene).find((message) => message.role === 'tool');
    assert.match(result?.content ?? '', expected);
    assert.equal(readFileSync(file, 'utf8'), final);
  }
});

test('a call that had not begun is run, and a read is run again', async (t) => {
  for (const kept of ['assistant', 'tool_started']) {
    const scene = await setScene(t, ({ index }) =>
      index === 0 ? { sse: [toolCallChunk('read_file', { path: 'f' })] } : { sse: [contentChunk('ok')] },
    );
    writeFileSync(join(scene.home, 'f'), 'first\n');
    assert.ok(isDone(await scene.run('-p', 'go')));
    cutLog(scene, (type) => type === kept);
    writeFileSync(join(scene.home, 'f'), 'second\n');
    assert.ok(isDone(await scene.run('-p', 'again')) && accepted(scene));
    const result = lastBody(scene).find((message) => message.role === 'tool');
    assert.match(result?.content ?? '', /second/);
  }
});

test('C040: a call whose arguments were still streaming is not in the next request', async (t) => {
  const half = deltaChunk({
    tool_calls: [{ index: 0, id: 'a', function: { name: 'bash', arguments: '{"comm' } }],
  });
  const scene = await setScene(t, ({ index }) =>
    index === 0
      ? {
          raw: [`data: ${JSON.stringify(contentChunk('I will'))}\n\n`, `data: ${JSON.stringify(half)}\n\n`],
          hold: true,
        }
      : { sse: [contentChunk('ok')] },
  );
  const first = scene.start('-p', 'go');
  await first.seen((event) => event.type === 'token');
  await kill(first);
  assert.ok(isDone(await scene.run('-p', 'go on')) && accepted(scene));
  assert.deepEqual(
    lastBody(scene)
      .slice(1)
      .map((message) => message.role),
    ['user', 'user'],
  );
});

test('C032: a torn last record costs at most itself, and a warning names file and offset', async (t) => {
  const scene = await setScene(t, [{ sse: [contentChunk('one')] }, { sse: [contentChunk('two')] }]);
  assert.ok(isDone(await scene.run('-p', 'first')));
  const path = join(scene.home, 'sessions', 's.jsonl');
  const size = readFileSync(path).length;
  appendFileSync(path, '{"v":1,"seq":99,"ts":"2026-11-30T10:00:00.000Z","type":"user","data":{"te');
  const end = await scene.run('-p', 'second');
  assert.ok(isDone(end));
  assert.match(end.stderr, new RegExp(`s\\.jsonl.*"offset":${size}`));
  assert.equal(readSession(scene.home, 's').at(-1)?.type, 'end');
});

test('results whose answer was lost with a damaged record are left out of requests', async (t) => {
  const scene = await setScene(t, ({ index }) =>
    index === 0 ? { sse: [toolCallChunk('glob', { pattern: '*' })] } : { sse: [contentChunk('ok')] },
  );
  assert.ok(isDone(await scene.run('-p', 'first')));
  const path = join(scene.home, 'sessions', 's.jsonl');
  writeFileSync(path, readFileSync(path, 'utf8').replace('"name":"glob"', '"name":"grep"'));
  assert.ok(isDone(await scene.run('-p', 'second')) && accepted(scene));
});

test('C043: output cut inside a surrogate pair reaches the model well-formed', async (t) => {
  const scene = await setScene(t, ({ index }) =>
    index === 0
      ? {
          sse: [
            toolCallChunk('bash', {
              command: `node -e 'process.stdout.write("x".repeat(49999) + "🏷".repeat(30000))'`,
            }),
          ],
        }
      : { sse: [contentChunk('ok')] },
  );
  assert.ok(isDone(await scene.run('-p', 'go')) && accepted(scene));
});
