// Ends every process below a cgroup, whatever session, group or parent it has. Kills nothing else.
import { join } from 'node:path';
import type { CallGroup } from './create.ts';
import { errnoOf } from './errors.ts';
import { childNames, readPids, writeValue } from './files.ts';
import { writeFreeze } from './freeze.ts';

/** Rounds of the fallback; each kills all that were forked before the freeze caught up. */
const MAX_ROUNDS = 100;

/** Kills the whole call: agent, tools and everything they left behind. The call may be frozen, or gone already. */
export function killCall(call: CallGroup): void {
  killTree(call.path);
}

/** As killCall, for any cgroup of the tree. */
export function killTree(path: string): void {
  try {
    writeValue(join(path, 'cgroup.kill'), '1');
  } catch (error) {
    const errno = errnoOf(error);
    if (errno === 'ENODEV') return;
    if (errno !== 'ENOENT') throw error;
    killByFreezing(path);
  }
}

/**
 * For kernels without cgroup.kill (before 5.14): freezes, so that nothing forks away, kills each process, thaws.
 * Returns how many were killed.
 */
export function killByFreezing(path: string): number {
  writeFreeze(path, '1');
  const killed = new Set<number>();
  try {
    for (let round = 0; round < MAX_ROUNDS; round++) {
      const fresh = pidsBelow(path).filter((pid) => pid !== process.pid && !killed.has(pid));
      if (fresh.length === 0) break;
      for (const pid of fresh) {
        killed.add(pid);
        killProcess(pid);
      }
    }
  } finally {
    writeFreeze(path, '0');
  }
  return killed.size;
}

/** All pids of a cgroup and of those below it. */
export function pidsBelow(path: string): number[] {
  return [...readPids(path), ...childNames(path).flatMap((name) => pidsBelow(join(path, name)))];
}

function killProcess(pid: number): void {
  try {
    process.kill(pid, 'SIGKILL');
  } catch (error) {
    // ESRCH: it has ended by itself.
    if (errnoOf(error) !== 'ESRCH') throw error;
  }
}
