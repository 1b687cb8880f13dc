// Wakes those who wait for something about one job inside this process. Only a hint: waiters look for themselves.

export interface JobSignals {
  fire(jobId: string): void;
  subscribe(jobId: string): JobSubscription;
}

export interface JobSubscription {
  /** Resolves when the job was fired since the last wait, after `timeoutMs`, or when `signal` is aborted. */
  wait(timeoutMs: number, signal: AbortSignal): Promise<void>;
  close(): void;
}

export function createJobSignals(): JobSignals {
  const listeners = new Map<string, Set<() => void>>();
  return {
    fire(jobId) {
      for (const listener of [...(listeners.get(jobId) ?? [])]) listener();
    },
    subscribe(jobId) {
      const all = listeners.get(jobId) ?? new Set();
      listeners.set(jobId, all);
      let fired = false;
      let wake: (() => void) | null = null;
      const listener = (): void => {
        fired = true;
        wake?.();
      };
      all.add(listener);
      return {
        async wait(timeoutMs, signal) {
          if (!fired && !signal.aborted) {
            await new Promise<void>((resolve) => {
              const timer = setTimeout(resolve, timeoutMs);
              wake = () => {
                clearTimeout(timer);
                resolve();
              };
              signal.addEventListener('abort', wake);
            });
            if (wake !== null) signal.removeEventListener('abort', wake);
            wake = null;
          }
          fired = false;
        },
        close() {
          wake?.();
          all.delete(listener);
          if (all.size === 0 && listeners.get(jobId) === all) listeners.delete(jobId);
        },
      };
    },
  };
}
