// The pump between queue and runs: claims while this machine has room, woken by arrival, completion, NOTIFY and a timer.
import type { JobRow } from '../db/jobs.ts';
import { isDatabaseAway } from '../db/pool.ts';
import type { Logger } from '../log.ts';
import { type Claim, LateArrival } from './claim.ts';

/** Bounds the wait when every wake-up was lost. */
const SLOW_TIMER_MS = 2_000;

export interface DispatcherDeps {
  /** Room for another job, and somebody to run it. */
  ready(): boolean;
  claim(): Promise<Claim>;
  launch(row: JobRow): void;
  log: Logger;
}

export interface Dispatcher {
  /** Something may have changed. Cheap; many calls make one pass. */
  wake(): void;
  /** A job has ended: a reason to look only if something waits. */
  freed(): void;
  /** Resolves when no claim is under way and none will be. */
  stop(): Promise<void>;
}

export function startDispatcher({ ready, claim, launch, log }: DispatcherDeps): Dispatcher {
  let stopped = false;
  let wanted = false;
  /** As the last claim saw it; unknown counts as true. */
  let left = true;
  let pumping: Promise<void> | null = null;
  const timer = setInterval(wake, SLOW_TIMER_MS);

  function wake(): void {
    wanted = true;
    if (stopped) return;
    pumping ??= pump().finally(() => {
      pumping = null;
      if (wanted && ready()) wake();
    });
  }

  async function pump(): Promise<void> {
    while (wanted && !stopped && ready()) {
      wanted = false;
      try {
        while (!stopped && ready()) {
          const claimed = await claim();
          left = claimed.left;
          if (claimed.row !== null) launch(claimed.row);
          if (!claimed.more) break;
        }
      } catch (error) {
        left = true;
        if (error instanceof LateArrival) {
          wanted = true;
          continue;
        }
        log[isDatabaseAway(error) ? 'warn' : 'error'](
          { err: error },
          'no job could be claimed; tried again soon',
        );
        return;
      }
    }
  }

  return {
    wake,
    freed() {
      // A claim under way may not have seen the end, nor told yet that something waits for it.
      if (left || wanted || pumping !== null) wake();
    },
    async stop() {
      stopped = true;
      clearInterval(timer);
      await pumping;
    },
  };
}
