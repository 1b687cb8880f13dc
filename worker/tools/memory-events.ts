// Tells whether the kernel killed a call's processes for memory, from memory.events of the tools group.
// Calls that run at the same time share the group: then a kill counts for those whose own shell died by KILL.
import { readFileSync } from 'node:fs';

export interface MemoryWatch {
  /** Kills that belong to this call. `ownShellKilled`: its shell ended by KILL (or with 137). */
  kills(ownShellKilled: boolean): number;
  close(): void;
}

const watching = new Map<string, Set<{ shared: boolean }>>();

/** Starts to watch; without a file, or where the kernel keeps no such count, nothing is ever attributed. */
export function watchMemory(eventsFile: string | undefined): MemoryWatch {
  const before = eventsFile === undefined ? null : readKills(eventsFile);
  if (eventsFile === undefined || before === null) return { kills: () => 0, close: () => {} };
  const calls = watching.get(eventsFile) ?? new Set();
  watching.set(eventsFile, calls);
  const call = { shared: calls.size > 0 };
  for (const other of calls) other.shared = true;
  calls.add(call);
  return {
    kills(ownShellKilled) {
      const risen = Math.max(0, (readKills(eventsFile) ?? before) - before);
      return call.shared && !ownShellKilled ? 0 : risen;
    },
    close() {
      calls.delete(call);
      if (calls.size === 0) watching.delete(eventsFile);
    },
  };
}

function readKills(eventsFile: string): number | null {
  try {
    const count = /^oom_kill (\d+)$/m.exec(readFileSync(eventsFile, 'latin1'))?.[1];
    return count === undefined ? null : Number(count);
  } catch {
    return null;
  }
}
