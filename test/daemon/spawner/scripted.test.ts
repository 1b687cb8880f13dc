// The second engine in its real sandbox: every line it writes by itself is one of the protocol.
import assert from 'node:assert/strict';
import { once } from 'node:events';
import { writeFileSync } from 'node:fs';
import { dirname } from 'node:path';
import { type TestContext, test } from 'node:test';
import { fileURLToPath } from 'node:url';
import type { LaunchEnd, Launched } from '../../../daemon/spawner/launch.ts';
import { parseEvent, type WorkerEvent } from '../../../worker/protocol.ts';
import { parseRecord } from '../../../worker/session/record.ts';
import { launchFixture, textOf } from './launch-fixture.ts';

const ENGINE = fileURLToPath(new URL('../../../engines/scripted.cjs', import.meta.url));
const ARGV = ['/opt/djinn/node', '/opt/djinn/engine/scripted.cjs'];

function fixture(t: TestContext) {
  return launchFixture(t, { engineDir: dirname(ENGINE), engineFiles: ['scripted.cjs'] });
}

const jobLine = (prompt: string) =>
  `${JSON.stringify({
    ...{
      v: 1,
      jobId: 'job_1',
      attempt: 1,
      sessionId: 's',
      engine: 'scripted',
      prompt,
      models: [],
      cwd: '/workspace',
    },
    ...{ session: { provider: 'fd' }, resumed: true, workspace: 'existing' },
  })}\n`;

interface Talk {
  lines: string[];
  events: WorkerEvent[];
  end: LaunchEnd;
}

async function talk(launched: Launched, prompt: string): Promise<Talk> {
  launched.stdin.end(jobLine(prompt));
  const [stdout, end] = await Promise.all([textOf(launched.stdout), launched.ended]);
  await launched.close();
  const lines = stdout.split('\n').filter(Boolean);
  const parsed = lines.map(parseEvent);
  return { lines, end, events: parsed.flatMap((each) => (each.ok ? [each.event] : [])) };
}
const script = (...steps: object[]) => JSON.stringify({ steps });

/** Acknowledges durable records and keeps all. */
function acknowledge(launched: Launched): string[] {
  const records: string[] = [];
  let pending = '';
  launched.records.on('data', (chunk: Buffer) => {
    const frames = (pending + chunk.toString('utf8')).split('\n');
    pending = frames.pop() ?? '';
    for (const frame of frames) {
      records.push(frame);
      if (frame.startsWith('!')) launched.records.write(`{"ack":${JSON.parse(frame.slice(1)).seq}}\n`);
    }
  });
  return records;
}

test('plain words come back as tokens between session and done, and both sides are on record', async (t) => {
  const { start, sessionFile } = fixture(t);
  writeFileSync(sessionFile, '{"v":1,"seq":41,"ts":"","type":"user","data":{}}\n');
  const launched = start(ARGV);
  const records = acknowledge(launched);
  const { lines, events, end } = await talk(launched, 'good  day');
  assert.deepEqual(end, { kind: 'exited', code: 0, signal: null });
  assert.equal(events.length, lines.length);
  assert.deepEqual(
    events.map(({ type }) => type),
    ['session', 'token', 'token', 'done'],
  );
  assert.equal(events.at(-1)?.type === 'done' && (events.at(-1) as { text: string }).text, 'good  day');
  const parsed = records.map((frame) => parseRecord(Buffer.from(frame.slice(1))));
  assert.ok(
    parsed.every(({ ok }) => ok),
    records.join('\n'),
  );
  assert.deepEqual(
    parsed.map((each) => each.ok && each.record.seq),
    [42, 43],
  );
});

test('any line can be written, valid or not, and an exit flushes what came before', async (t) => {
  const { start } = fixture(t);
  const big = 'x'.repeat(3 * 1024 * 1024);
  const steps = [
    { event: { type: 'fallback', from: 'a', to: 'b', reason: 'r', discard: true } },
    { event: { type: 'nonsense' } },
    { raw: 'not JSON\n' },
  ];
  const { lines, events, end } = await talk(
    start(ARGV),
    script(...steps, { say: big }, { exit: { code: 7 } }),
  );
  assert.deepEqual(end, { kind: 'exited', code: 7, signal: null });
  assert.deepEqual(
    events.map(({ type }) => type),
    ['session', 'fallback', 'token'],
  );
  assert.equal(lines.length, 5);
  assert.equal((events.at(-1) as { text: string }).text.length, big.length);
});

test('programs, the environment and the job come back as tool results', async (t) => {
  const { start } = fixture(t);
  const steps = [
    { exec: { argv: ['/bin/sh', '-c', 'cat; exit 3'], input: 'in' } },
    { exec: { argv: ['/nothing'] } },
    { env: {} },
    { job: {} },
  ];
  const { events, lines } = await talk(start(ARGV), script(...steps));
  assert.equal(events.length, lines.length);
  const results = events.flatMap((event) => (event.type === 'tool_result' ? [event] : []));
  assert.deepEqual([results[0]?.content, results[0]?.isError], ['in\n[exit code 3]', true]);
  assert.match(results[1]?.content ?? '', /ENOENT/);
  assert.equal(JSON.parse(results[2]?.content ?? '').HOME, '/home/agent');
  assert.equal(JSON.parse(results[3]?.content ?? '').sessionId, 's');
});

test('TERM ends it with 143, also before its job and while nobody reads', async (t) => {
  const { start } = fixture(t);
  const early = start(ARGV);
  await early.running;
  setTimeout(() => early.terminate(), 300);
  assert.deepEqual(await early.ended, { kind: 'exited', code: 143, signal: null });
  await early.close();
  const deaf = start(ARGV);
  deaf.stdin.end(jobLine(script({ flood: { bytes: 50_000_000 } })));
  await once(deaf.stdout, 'readable');
  setTimeout(() => deaf.terminate(), 300);
  const ended = await Promise.race([
    deaf.ended,
    new Promise((resolve) => setTimeout(resolve, 1500, 'stuck')),
  ]);
  // It flushes before it exits, so it ends once somebody reads again.
  deaf.stdout.resume();
  assert.equal(ended, 'stuck');
  assert.deepEqual(await deaf.ended, { kind: 'exited', code: 143, signal: null });
  await deaf.close();
});

test('a script may ignore TERM, and an unknown step is an error event and exit 1', async (t) => {
  const { start } = fixture(t);
  const deaf = start(ARGV);
  deaf.stdin.end(jobLine(script({ ignoreTerm: {} }, { say: 'deaf' }, { sleepMs: 20_000 })));
  for await (const chunk of deaf.stdout) if (String(chunk).includes('deaf')) break;
  deaf.terminate();
  const ended = await Promise.race([deaf.ended, new Promise((resolve) => setTimeout(resolve, 500, 'alive'))]);
  assert.equal(ended, 'alive');
  deaf.killAll();
  await deaf.ended;
  await deaf.close();
  const { events, end } = await talk(start(ARGV), script({ fly: {} }));
  assert.deepEqual(events.at(-1), {
    type: 'error',
    code: 'script',
    message: 'unknown step fly',
    retryable: false,
  });
  assert.deepEqual(end, { kind: 'exited', code: 1, signal: null });
});
