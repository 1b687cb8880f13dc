// Repeats a database step until it has worked: jobs and their ends wait for Postgres, they never give up on it.
import { setTimeout as sleep } from 'node:timers/promises';
import { isDatabaseAway } from '../db/pool.ts';
import type { Logger } from '../log.ts';

const FIRST_WAIT_MS = 50;
const LONGEST_WAIT_MS = 2_000;

/** Runs `step` until it resolves; throws only the signal's reason when that is aborted while waiting. */
export type UntilDone = <T>(signal: AbortSignal, step: () => Promise<T>) => Promise<T>;

export function createUntilDone(log: Logger): UntilDone {
  return async (signal, step) => {
    for (let waitMs = FIRST_WAIT_MS; ; waitMs = Math.min(waitMs * 2, LONGEST_WAIT_MS)) {
      signal.throwIfAborted();
      try {
        return await step();
      } catch (error) {
        // A wrong statement is our fault and is said loudly, but the job must not be lost for it either.
        const level = isDatabaseAway(error) ? 'warn' : 'error';
        log[level]({ err: error }, 'a step of a job waits for the database');
      }
      await sleep(waitMs, undefined, { signal }).catch(() => signal.throwIfAborted());
    }
  };
}
