// The seeded kills of test/worker/kill-anywhere.test.ts, ten times as many.
import { test } from 'node:test';
import { killManyTimes } from '../worker/kill-job.ts';

const RUNS = 500;
/** Not the seeds of the short form. */
const FIRST_SEED = 1001;

test('C041: 500 jobs of 12 steps, killed at any moment, also while they resume: nothing lost, nothing done twice', async (t) => {
  const { kills, torn, interrupted } = await killManyTimes(t, {
    from: FIRST_SEED,
    runs: RUNS,
    width: 3,
  });
  t.diagnostic(
    `${RUNS} jobs, ${kills} processes killed, ${torn} torn lines, ${interrupted} calls interrupted`,
  );
});
