import assert from 'node:assert/strict';
import { readFileSync } from 'node:fs';
import { join } from 'node:path';
import { test } from 'node:test';
import { setTimeout as sleep } from 'node:timers/promises';
import { contentChunk, startFakeOpenAI, toolCallChunk } from '../../worker/index.ts';
import { makeFolder, parseEvents, runWorker, startWorker, terminal } from './worker-process.ts';

/** `WORKER_KILLS=200` for the long form; a failure names its seed. */
const RUNS = Number(process.env.WORKER_KILLS ?? 12);
const FIRST_SEED = Number(process.env.WORKER_SEED ?? 1);
const STEPS = 6;

/** A number in [0, 1) from a seed (mulberry32), so that a failing run can be repeated. */
function random(seed: number): number {
  let value = (seed + 0x6d2b79f5) | 0;
  value = Math.imul(value ^ (value >>> 15), value | 1);
  value ^= value + Math.imul(value ^ (value >>> 7), value | 61);
  return ((value ^ (value >>> 14)) >>> 0) / 4294967296;
}

test(`C041: a worker killed at any moment goes on from its log (${RUNS} kills from seed ${FIRST_SEED})`, async (t) => {
  for (let seed = FIRST_SEED; seed < FIRST_SEED + RUNS; seed += 1) {
    const home = makeFolder(t);
    const fake = await startFakeOpenAI(({ body }) => {
      const results = body.messages.filter((message: { role: string }) => message.role === 'tool').length;
      if (results >= STEPS) return { sse: [contentChunk('all '), contentChunk('done')], pauseMs: 5 };
      const call = toolCallChunk('bash', { command: `echo ${results} >> ran` }, { id: `call_${results}` });
      return { sse: [contentChunk(`step ${results} `), call], pauseMs: 5 };
    });
    const options = { home, baseUrl: fake.baseUrl };
    const first = startWorker(t, ['-p', 'the prompt', '--session-id', 's'], options);
    await first.seen((event) => event.type === 'session').catch(() => {});
    await sleep(random(seed) * 400);
    first.child.kill('SIGKILL');
    await first.ended;
    const seen = parseEvents(first.stdout().slice(0, first.stdout().lastIndexOf('\n') + 1));
    const resumed = startWorker(t, ['-p', 'go on', '--session-id', 's'], options);
    if (seed % 5 === 0) {
      await sleep(random(seed + 1000) * 300);
      resumed.child.kill('SIGKILL');
    }
    const second = await resumed.ended;
    const end =
      second.signal === 'SIGKILL'
        ? await runWorker(t, ['-p', 'go on', '--session-id', 's'], options)
        : second;
    const where = `seed ${seed}`;
    assert.equal(terminal(end.events).type, 'done', where);
    assert.deepEqual(
      fake.requests.flatMap((request) => request.problems),
      [],
      where,
    );
    const last = JSON.stringify(fake.requests.at(-1)?.body.messages);
    const log = readFileSync(join(home, 'sessions', 's.jsonl'), 'utf8');
    if (fake.requests.length > 1) assert.ok(last.includes('go on'), where);
    for (const event of seen) {
      if (event.type === 'tool_call') assert.ok(log.includes(`"id":"${event.id}"`), where);
      if (event.type === 'tool_result') assert.ok(log.includes(`"callId":"${event.id}"`), where);
    }
    const ran = readFileSync(join(home, 'ran'), 'utf8').trim().split('\n');
    assert.deepEqual(ran, [...new Set(ran)], `${where}: a command ran twice`);
    await fake.stop();
  }
});

test('a run of many calls says nothing on stderr', async (t) => {
  const fake = await startFakeOpenAI(({ index }) => ({
    sse:
      index < 25
        ? [toolCallChunk('glob', { pattern: '*' }), toolCallChunk('bash', { command: 'true' }, { index: 1 })]
        : [contentChunk('ok')],
  }));
  t.after(() => fake.stop());
  const end = await runWorker(t, ['-p', 'x'], { home: makeFolder(t), baseUrl: fake.baseUrl });
  assert.deepEqual([end.code, end.stderr], [0, '']);
});
