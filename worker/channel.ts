// Hands the events of a run to its reader, in order, and slows the run when the reader is slow. Drops nothing.

/** Text waiting for the reader, in UTF-16 units, above which the run waits. */
const HIGH_WATER_UNITS = 256 * 1024;

export interface Channel<T> {
  push(item: T, units: number): void;
  /** Resolves when less than the high-water mark waits. */
  drained(): Promise<void>;
  /** No more items: the reader ends after those that wait. */
  end(): void;
  /** The reader went away: nothing waits for it any more. */
  abandon(): void;
  /** Items as they come, all that wait at a time. */
  batches(): AsyncGenerator<T[], void, undefined>;
}

export function createChannel<T>(): Channel<T> {
  let waiting: T[] = [];
  let units = 0;
  let ended = false;
  let abandoned = false;
  let wakeReader: (() => void) | null = null;
  let wakeWriters: (() => void)[] = [];
  const releaseWriters = (): void => {
    for (const wake of wakeWriters) wake();
    wakeWriters = [];
  };
  return {
    push(item, itemUnits) {
      if (abandoned) return;
      waiting.push(item);
      units += itemUnits;
      wakeReader?.();
    },
    drained() {
      if (abandoned || units < HIGH_WATER_UNITS) return Promise.resolve();
      return new Promise((resolve) => wakeWriters.push(resolve));
    },
    end() {
      ended = true;
      wakeReader?.();
    },
    abandon() {
      abandoned = true;
      waiting = [];
      releaseWriters();
    },
    async *batches() {
      for (;;) {
        if (waiting.length > 0) {
          const batch = waiting;
          const taken = units;
          waiting = [];
          yield batch;
          // Only now has the reader dealt with it.
          units -= taken;
          releaseWriters();
        } else if (ended) {
          return;
        } else {
          await new Promise<void>((resolve) => {
            wakeReader = resolve;
          });
          wakeReader = null;
        }
      }
    },
  };
}
