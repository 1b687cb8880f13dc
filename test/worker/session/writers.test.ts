// One writer per session, whole processes; and logs of other versions under both providers.
import assert from 'node:assert/strict';
import { appendFileSync, copyFileSync, readFileSync, truncateSync, unlinkSync } from 'node:fs';
import { join } from 'node:path';
import { test } from 'node:test';
import { fileURLToPath } from 'node:url';
import { contentChunk, toolCallChunk } from '../../../worker/index.ts';
import { verifyLog } from '../../../worker/replay/verify.ts';
import { crc32Hex } from '../../../worker/session/crc32.ts';
import { openFileStore } from '../../../worker/session/file.ts';
import { withLog } from '../../../worker/session/log-file.ts';
import { setScene, testBoth } from '../providers.ts';
import { makeFolder, readSession, terminal, type WorkerEnd } from '../worker-process.ts';

const OLD = fileURLToPath(new URL('./fixtures/written-by-0.1.0.jsonl', import.meta.url));
const codeOf = (end: WorkerEnd): string => {
  const last = terminal(end.events);
  return last.type === 'error' ? last.code : last.type;
};

test('C044: of two processes that resume a session at the same instant one runs, the other says that it is busy', async (t) => {
  const scene = await setScene(t, 'file', [{ sse: [contentChunk('ok')], pauseMs: 150 }]);
  for (let round = 0; round < 5; round += 1) {
    const both = await Promise.all([scene.run({ prompt: 'a' }), scene.run({ prompt: 'b' })]);
    assert.deepEqual(both.map(codeOf).sort(), ['done', 'session_busy']);
    assert.deepEqual(both.map((end) => end.code).sort(), [0, 1]);
  }
  const seqs = readSession(scene.home, 's').map((record) => record.seq);
  assert.deepEqual(
    seqs,
    seqs.map((_, index) => index + 1),
  );
  assert.deepEqual(withLog(scene.log, verifyLog).problems, []);
});

test('C044: after a kill of the holder the next resume is taken at once', async (t) => {
  const scene = await setScene(t, 'file', ({ index }) =>
    index === 0 ? { sse: [contentChunk('x')], complete: false, hold: true } : { sse: [contentChunk('ok')] },
  );
  const holder = scene.start({ prompt: 'a' });
  await holder.seen((event) => event.type === 'token');
  const refused = await scene.run({ prompt: 'b' });
  assert.equal(codeOf(refused), 'session_busy');
  assert.partialDeepStrictEqual(terminal(refused.events), { type: 'error', retryable: true });
  holder.child.kill('SIGKILL');
  await holder.ended;
  assert.equal(codeOf(await scene.run({ prompt: 'c' })), 'done');
});

test('a run whose session another process took over or wrote to stops before its next record', async (t) => {
  for (const [what, meddle] of [
    ['a foreign record', (log: string) => appendFileSync(log, '{"v":1}\n')],
    ['a lost lock', (log: string) => unlinkSync(log.replace(/jsonl$/, 'lock'))],
  ] as const) {
    const scene = await setScene(t, 'file', ({ index }) =>
      index === 0
        ? { sse: [toolCallChunk('bash', { command: 'while [ ! -e go ]; do sleep 0.05; done' })] }
        : { sse: [contentChunk('ok')] },
    );
    const worker = scene.start({ prompt: 'a' });
    await worker.seen((event) => event.type === 'tool_call');
    meddle(scene.log);
    appendFileSync(join(scene.home, 'go'), '');
    const end = await worker.ended;
    assert.deepEqual([codeOf(end), end.code], ['session_lost', 1], what);
    assert.equal(scene.fake.requests.length, 1, what);
  }
});

test('a log that was removed while its run goes on is a storage error, not a run that nobody can read', async (t) => {
  const dir = makeFolder(t);
  const store = openFileStore({ dir, sessionId: 's', onRecord: () => {} });
  await store.append('user', { text: 'a' });
  unlinkSync(join(dir, 's.jsonl'));
  await assert.rejects(store.append('user', { text: 'b' }), { code: 'storage' });
  await store.close();
});

testBoth('a session of version 0.1.0 goes on, and its log verifies afterwards', async (t, provider) => {
  const scene = await setScene(t, provider, [{ sse: [contentChunk('ok')] }]);
  copyFileSync(OLD, scene.log);
  assert.equal(codeOf(await scene.run({ prompt: 'and now?' })), 'done');
  const [request] = scene.fake.requests;
  assert.deepEqual(request?.problems, []);
  const text = JSON.stringify(request?.body.messages);
  assert.ok(text.includes('a.txt holds two lines') && text.includes('and now?'));
  assert.ok(readFileSync(scene.log).subarray(0, readFileSync(OLD).length).equals(readFileSync(OLD)));
  const { problems, unverified } = withLog(scene.log, verifyLog);
  assert.deepEqual([problems, unverified], [[], [43]]);
});

testBoth(
  'a session of a later version is refused with session_newer, and its log stays as it is',
  async (t, provider) => {
    const scene = await setScene(t, provider, [{ sse: [contentChunk('ok')] }]);
    const text = '{"v":2,"seq":1,"ts":"2027-11-30T10:00:00.000Z","type":"user","data":{"text":"hi"}}';
    const line = `${text.slice(0, -1)},"crc":"${crc32Hex(Buffer.from(text))}"}\n`;
    appendFileSync(scene.log, line);
    const end = await scene.run({ prompt: 'x' });
    assert.deepEqual([codeOf(end), end.code, scene.fake.requests.length], ['session_newer', 1, 0]);
    assert.equal(readFileSync(scene.log, 'utf8'), line);
  },
);

testBoth(
  'C032, C034: a torn tail and one without its LF, resumed by a whole process',
  async (t, provider) => {
    for (const [cut, kept] of [
      [30, false],
      [1, true],
    ] as const) {
      const scene = await setScene(t, provider, [
        { sse: [contentChunk('one')] },
        { sse: [contentChunk('two')] },
      ]);
      assert.equal(codeOf(await scene.run({ prompt: 'first' })), 'done');
      const whole = readFileSync(scene.log);
      truncateSync(scene.log, whole.length - cut);
      const end = await scene.run({ prompt: 'second' });
      assert.equal(codeOf(end), 'done');
      const lastLine = whole.lastIndexOf(10, whole.length - 2) + 1;
      if (kept) assert.equal(end.stderr, '');
      else assert.match(end.stderr, new RegExp(`"offset":${lastLine}`));
      const { problems } = withLog(scene.log, verifyLog);
      assert.deepEqual([problems, readSession(scene.home, 's').at(-1)?.type], [[], 'end']);
    }
  },
);
