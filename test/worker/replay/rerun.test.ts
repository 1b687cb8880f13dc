// Recorded sessions, run again.
import assert from 'node:assert/strict';
import { copyFileSync, existsSync, mkdirSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { type TestContext, test } from 'node:test';
import { setTimeout as sleep } from 'node:timers/promises';
import { fileURLToPath } from 'node:url';
import {
  contentChunk,
  httpError,
  reasoningChunk,
  toolCallChunk,
  type WorkerEvent,
} from '../../../worker/index.ts';
import { verifyLog } from '../../../worker/replay/verify.ts';
import { withLog } from '../../../worker/session/log-file.ts';
import { setScene } from '../providers.ts';
import { makeFolder, readSession, runWorker, terminal } from '../worker-process.ts';

const OLD = fileURLToPath(new URL('../session/fixtures/written-by-0.1.0.jsonl', import.meta.url));
const LIMITS = { DJINN_INPUT_LIMIT: '6000', DJINN_OUTPUT_LIMIT: '900', DJINN_FALLBACKS: 'second' };

/**
 * A home with session `s`: three runs with a failure, a fallback, parallel calls, an image, arguments that do not
 * parse, a summary; the second run was killed in a command.
 */
async function record(t: TestContext): Promise<string> {
  const png =
    'iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNk+M9QDwADhgGAWjR9awAAAABJRU5ErkJggg==';
  let asked = 0;
  const scene = await setScene(t, 'file', ({ body }) => {
    if (body.tools === undefined) return { sse: [contentChunk('They looked at a file.')] };
    asked += 1;
    if (asked === 1) return httpError(500);
    if (asked === 2) {
      const calls = [
        toolCallChunk('read_file', { path: 'a' }),
        toolCallChunk('read_image', { path: 'p.png' }, { index: 1 }),
        toolCallChunk('grep', '{"pattern": ', { index: 2 }),
      ];
      return { sse: [reasoningChunk('Hm. 北'), contentChunk('Both. '), ...calls] };
    }
    if (asked === 3) return { sse: [toolCallChunk('write_file', { path: 'made', content: 'x' })] };
    if (asked === 4) return { sse: [contentChunk('Seen.')] };
    if (asked === 5) return { sse: [toolCallChunk('bash', { command: 'echo x >> ran; exec sleep 60' })] };
    if (asked < 9)
      return { sse: [contentChunk('On. '), toolCallChunk('bash', { command: `seq 1 ${900 + asked}` })] };
    return { sse: [contentChunk('Finished.')] };
  });
  writeFileSync(join(scene.home, 'a'), 'text\n');
  writeFileSync(join(scene.home, 'p.png'), Buffer.from(png, 'base64'));
  assert.equal(terminal((await scene.run({ prompt: 'look', env: LIMITS })).events).type, 'done');
  const killed = scene.start({ prompt: 'run it', env: LIMITS });
  for (let tries = 0; tries < 1000 && !existsSync(join(scene.home, 'ran')); tries += 1) await sleep(20);
  killed.child.kill('SIGKILL');
  await killed.ended;
  assert.equal(terminal((await scene.run({ prompt: 'go on', env: LIMITS })).events).type, 'done');
  const types = readSession(scene.home, 's').map((one) => one.type);
  assert.ok(types.includes('summary') && types.includes('failure') && types.includes('fallback'));
  await scene.fake.stop();
  for (const name of ['a', 'ran', 'made']) rmSync(join(scene.home, name));
  return scene.home;
}

const rerun = (t: TestContext, home: string, ...words: string[]) =>
  runWorker(t, ['rerun', 's', '--session-id', 'again', ...words], { home, env: { DJINN_API_KEY: '' } });

const endsOf = (events: WorkerEvent[]): string[] =>
  events
    .filter((event) => event.type === 'done' || event.type === 'error')
    .map((event) => (event.type === 'error' ? event.code : event.type));

const requestsOf = (home: string, id: string) =>
  readSession(home, id)
    .filter((one) => one.type === 'request')
    .map((one) => `${one.data.model} ${one.data.purpose} ${one.data.sha256}`);

test('a recorded session run again makes the recorded requests, byte for byte, and touches nothing', async (t) => {
  const home = await record(t);
  const before = readFileSync(join(home, 'sessions', 's.jsonl'));
  const { events, code, stderr } = await rerun(t, home);
  assert.deepEqual([code, endsOf(events)], [0, ['done', 'replay_end', 'done']], stderr);
  assert.deepEqual(requestsOf(home, 'again'), requestsOf(home, 's'));
  const heard = (id: string) =>
    readSession(home, id)
      .filter((one) => ['user', 'assistant', 'tool_result', 'compact', 'fallback'].includes(one.type))
      // What was interrupted by the kill is a result like others now, and where the view begins is another number.
      .map(({ type, data }) => [type, data.text, data.content, data.calls, data.reason, data.method]);
  assert.deepEqual(heard('again').sort(), heard('s').sort());
  assert.ok(readFileSync(join(home, 'sessions', 's.jsonl')).equals(before));
  assert.deepEqual(
    ['a', 'ran', 'made'].map((name) => existsSync(join(home, name))),
    [false, false, false],
  );
  assert.deepEqual(withLog(join(home, 'sessions', 'again.jsonl'), verifyLog).problems, []);
});

test('faults put in before recorded answers are dealt with, and the session ends as recorded', async (t) => {
  const home = await record(t);
  const { events, code } = await rerun(t, home, '--fault', '2=429', '--fault', '3=cut', '--fault', '4=reset');
  assert.deepEqual([code, endsOf(events)], [0, ['done', 'replay_end', 'done']]);
  const failures = readSession(home, 'again').filter((one) => one.type === 'failure');
  assert.deepEqual(failures.map((one) => one.data.kind).slice(0, 4), [
    'server',
    'rate_limit',
    'early_end',
    'network',
  ]);
  const last = terminal(events.slice(-1));
  assert.equal(last.type === 'done' && last.text, 'Finished.');
});

test('from a fork, with another answer', async (t) => {
  const home = await record(t);
  const records = readSession(home, 's');
  const at = records.find((one) => one.type === 'end')?.seq as number;
  const { events, code } = await rerun(t, home, '--at', String(at), '--answer', '1=I will not run it.');
  assert.equal(code, 0);
  const [first] = events.filter((event) => event.type === 'done');
  assert.equal(first?.type === 'done' && first.text, 'I will not run it.');
  const again = readSession(home, 'again');
  assert.deepEqual(again.slice(0, at), records.slice(0, at));
  assert.deepEqual(again[at]?.data, { from: 's', at });
  assert.ok(
    !again.some((one) => one.type === 'tool_started' && one.seq > at && one.data.name === 'read_file'),
  );
});

test('with the real tools the calls run; what differs from the record is told', async (t) => {
  const home = await record(t);
  const cwd = makeFolder(t);
  writeFileSync(join(cwd, 'a'), 'another text\n');
  const { events, code } = await rerun(t, home, '--real-tools', '--cwd', cwd);
  const ends = endsOf(events);
  assert.deepEqual([code, ends[0]], [1, 'replay_differs']);
  const last = events.find((event) => event.type === 'error');
  assert.match(
    last?.type === 'error' ? last.message : '',
    /request 3 differs from the recorded one \(record \d+\)/,
  );
});

test('rerun refuses a session that exists, and wrong words', async (t) => {
  const home = await record(t);
  for (const [words, code, message] of [
    [['--session-id', 's', '--at', '3'], 1, /a session s already/],
    [['--session-id', 's'], 1, /a session s already/],
    [['--fault', '1=399'], 2, /none of 4xx/],
    [['--fault', 'cut'], 2, /must be N=/],
    [['--fault', '1=cut', '--answer', '1=x'], 2, /two ways/],
  ] as const) {
    const end = await runWorker(t, ['rerun', 's', ...words], { home, env: { DJINN_API_KEY: '' } });
    assert.equal(end.code, code, end.stderr);
    assert.match(end.stderr, message);
  }
});

test('a session of version 0.1.0 can be run again as well', async (t) => {
  const home = makeFolder(t);
  mkdirSync(join(home, 'sessions'));
  copyFileSync(OLD, join(home, 'sessions', 's.jsonl'));
  const { events, code } = await rerun(t, home);
  assert.deepEqual([code, endsOf(events)], [0, ['done', 'replay_end', 'done', 'done']]);
  const last = terminal(events.slice(-1));
  assert.equal(last.type === 'done' && last.text, 'Finished.');
});
