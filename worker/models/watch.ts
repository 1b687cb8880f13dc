// Ends a request that stands still or is cancelled, and remembers which of the two it was.
import { ModelError } from './errors.ts';
import type { Posted } from './request.ts';

export interface Watch {
  /** The first cause wins; a broken socket afterwards is its consequence. */
  failure: Error | null;
  /** Restarts the timer. */
  touch(timeoutMs: number): void;
  /** Stops the timer until the next `touch`: the reader is slow, not the model. */
  pause(): void;
  /** Stops watching; a connection whose answer was read to its end is kept for the next request. */
  close(keep: boolean): void;
}

/** Watches a request from now on. When it is `finished`, standing still ends it without a failure. */
export function watchRequest(posted: Posted, signal: AbortSignal, finished: () => boolean): Watch {
  let timer: NodeJS.Timeout | undefined;
  const watch: Watch = {
    failure: null,
    touch(timeoutMs) {
      clearTimeout(timer);
      timer = setTimeout(() => {
        const waitedMs = Math.round(timeoutMs);
        if (!finished()) watch.failure ??= new ModelError('stall', `no data for ${waitedMs} ms`);
        posted.destroy();
      }, timeoutMs);
    },
    pause() {
      clearTimeout(timer);
    },
    close(keep) {
      clearTimeout(timer);
      signal.removeEventListener('abort', abort);
      if (!keep) posted.destroy();
    },
  };
  const abort = (): void => {
    watch.failure ??= new ModelError('cancelled', 'cancelled');
    posted.destroy();
  };
  if (signal.aborted) abort();
  else signal.addEventListener('abort', abort);
  return watch;
}
