import assert from 'node:assert/strict';
import { test } from 'node:test';
import { contentChunk, startFakeOpenAI, toolCallChunk } from '../../worker/index.ts';
import { killManyTimes } from './kill-job.ts';
import { makeFolder, runWorker } from './worker-process.ts';

/** 500 in test/full. `WORKER_SEED` repeats a run whose failure named its seed. */
const RUNS = Number(process.env.WORKER_KILLS ?? 50);
const FIRST_SEED = Number(process.env.WORKER_SEED ?? 1);

test(`C041: a worker killed at any moment goes on from its log (${RUNS} jobs from seed ${FIRST_SEED})`, async (t) => {
  const { kills, torn, interrupted } = await killManyTimes(t, {
    from: FIRST_SEED,
    runs: RUNS,
    width: 3,
  });
  t.diagnostic(
    `${RUNS} jobs, ${kills} processes killed, ${torn} torn lines, ${interrupted} calls interrupted`,
  );
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
