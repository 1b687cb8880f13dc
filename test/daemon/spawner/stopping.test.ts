// Attempts that are ended early, and what of them may not stay.
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { setTimeout as sleep } from 'node:timers/promises';
import { alive, benchForFile, DONE, endOf, token } from '../../support/attempts.ts';
import type { Line } from '../../support/spawner.ts';
import { LIMITS, testCgroup } from '../../support/spawner.ts';

const bench = benchForFile();

test('a job over its time is asked to end, then killed', async () => {
  const soft = endOf(
    await bench().run([{ onTermExit: 143 }, { sleepMs: 60_000 }], { limits: { ...LIMITS, wallMs: 600 } }),
  );
  assert.deepEqual([soft.outcome, soft.exit.code], ['timeout', 143]);
  const hard = endOf(
    await bench().run([{ ignoreTerm: 1 }, { sleepMs: 60_000 }], { limits: { ...LIMITS, wallMs: 600 } }),
  );
  assert.deepEqual([hard.outcome, hard.exit.signal, hard.cause.code], ['timeout', 'SIGKILL', 'wall_clock']);
  assert.ok(hard.resources.wallMs >= 1000 && hard.resources.wallMs < 5000);
});

test('a program that says done and does not exit is ended, and does not count as ok', async () => {
  const end = endOf(await bench().run([DONE, { ignoreTerm: 1 }, { sleepMs: 60_000 }]));
  assert.deepEqual([end.outcome, end.cause.code], ['failed', 'no_exit']);
});

test('an attempt whose go never comes ends at its time', async () => {
  const params = bench().params([], { limits: { ...LIMITS, wallMs: 300 } });
  await bench().client.call('start', params);
  assert.equal(endOf(await bench().finish(params)).outcome, 'timeout');
});

test('a running job is cancelled once, however often it is asked', async () => {
  const params = await bench().begin([{ onTermExit: 143 }, token('up'), { sleepMs: 60_000 }]);
  await bench().seen(params, ({ type }) => type === 'token');
  const ref = { jobId: params.jobId, attempt: 1 };
  const answers = await Promise.all(
    [1, 2, 3].map(() => bench().client.call('cancel', { ...ref, cause: 'cancelled' })),
  );
  assert.deepEqual(answers, [{ known: true }, { known: true }, { known: true }]);
  await bench().client.call('cancel', { ...ref, cause: 'budget' });
  const end = endOf(await bench().finish(params));
  assert.deepEqual([end.outcome, end.cause.code, end.exit.code], ['cancelled', 'cancelled', 143]);
  assert.deepEqual(await bench().client.call('cancel', { ...ref, cause: 'cancelled' }), { known: true });
});

test('a job is cancelled while it waits, and while it is being launched', async () => {
  const waiting = bench().params([]);
  await bench().client.call('start', waiting);
  await bench().seen(waiting, ({ state }) => state === 'running');
  await bench().client.call('cancel', { jobId: waiting.jobId, attempt: 1, cause: 'cancelled' });
  assert.equal(endOf(await bench().finish(waiting, 3000)).outcome, 'cancelled');
  for (let n = 0; n < 10; n += 1) {
    const params = bench().params([DONE]);
    const started = bench().client.call('start', params);
    if (n % 2 === 0) await sleep(n);
    const answer = await bench().client.call('cancel', { jobId: params.jobId, attempt: 1, cause: 'budget' });
    assert.deepEqual(answer, { known: true });
    await started;
    assert.equal(endOf(await bench().finish(params, 3000)).outcome, 'budget');
  }
});

test('a cancel after the end changes nothing', async () => {
  const lines = await bench().run([DONE]);
  const { jobId } = lines[0] as Line;
  assert.deepEqual(await bench().client.call('cancel', { jobId, attempt: 1, cause: 'cancelled' }), {
    known: true,
  });
  assert.deepEqual(bench().lines({ jobId, attempt: 1 }), lines);
});

test('a child in a session of its own that holds stdout open is gone at the end, which does not wait for it', async (t) => {
  if (testCgroup() === null) return t.skip('no cgroup v2');
  const marker = `escape-${process.pid}`;
  const params = await bench().begin([{ escape: marker }, { sleepMs: 300 }, DONE]);
  await bench().seen(params, ({ type }) => type === 'done');
  const end = endOf(await bench().finish(params, 3000));
  assert.equal(end.outcome, 'ok');
  assert.deepEqual(alive(marker), []);
});
