// Cgroups that could not be removed: tried again at a slow pace, counted until they are gone.
import type { Logger } from 'pino';
import type { CallGroup } from '../../cgroups/index.ts';
import type { Calls } from './calls.ts';

const EVERY_MS = 30_000;

export interface Janitor {
  add(call: CallGroup): void;
  /** Cgroups that still leak. */
  readonly leaked: number;
  close(): void;
}

export function createJanitor(calls: Calls | null, log: Logger, everyMs = EVERY_MS): Janitor {
  const leaked = new Set<CallGroup>();
  let working = false;

  async function sweep(): Promise<void> {
    if (working || calls === null) return;
    working = true;
    try {
      for (const call of leaked) {
        calls.kill(call);
        if (!(await calls.remove(call))) continue;
        leaked.delete(call);
        log.info({ path: call.path }, 'a leaked cgroup is gone');
      }
    } catch (error) {
      log.error({ err: error }, 'a leaked cgroup cannot be removed');
    } finally {
      working = false;
    }
  }

  const timer = setInterval(() => void sweep(), everyMs);
  timer.unref();
  return {
    add(call) {
      leaked.add(call);
      log.error({ path: call.path, leaked: leaked.size }, 'a cgroup leaked');
    },
    get leaked() {
      return leaked.size;
    },
    close: () => clearInterval(timer),
  };
}
