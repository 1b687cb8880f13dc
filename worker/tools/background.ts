// Processes that bash calls left running in the background, ended when the run ends.
import { setTimeout as sleep } from 'node:timers/promises';
import { listProcesses, signalProcess } from './process-table.ts';
import type { LeftProcess } from './types.ts';

const KILL_LIMIT_MS = 3000;

/** Ends the processes that a run's bash calls left behind, with their descendants. Never throws. */
export async function endBackground(left: LeftProcess[]): Promise<void> {
  const roots = new Map(left.map((entry) => [entry.pid, entry.startTicks]));
  left.length = 0;
  if (roots.size === 0) return;
  for (const endMs = Date.now() + KILL_LIMIT_MS; Date.now() < endMs; await sleep(20)) {
    const table = listProcesses();
    const doomed = new Set<number>();
    for (const entry of table) if (roots.get(entry.pid) === entry.startTicks) doomed.add(entry.pid);
    for (let size = -1; size !== doomed.size; ) {
      size = doomed.size;
      for (const entry of table) if (doomed.has(entry.parentPid)) doomed.add(entry.pid);
    }
    const alive = table.filter((entry) => doomed.has(entry.pid) && !entry.isEnding);
    if (alive.length === 0) return;
    for (const entry of alive) {
      // Descendants stay known after their parent has died.
      roots.set(entry.pid, entry.startTicks);
      signalProcess(entry, 'SIGKILL');
    }
  }
}
