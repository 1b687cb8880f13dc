// Takes the wait out of the next process's way into a cgroup.
import { constants } from 'node:fs';
import { open } from 'node:fs/promises';
import { join } from 'node:path';
import type { Tree } from './tree.ts';

/**
 * Tells the kernel that a process will soon join a cgroup. The first join after a pause waits for an RCU grace period
 * (4 to 12 ms: the kernel's lock around joins and forks has to leave its fast path), those that follow within a few
 * milliseconds do not. This begins that wait now, beside everything else, by moving this process to where it is.
 * Resolves when it is over; a refusal means only that the next join waits by itself.
 */
export async function expectJoin({ supervisorPath }: Tree): Promise<void> {
  try {
    const file = await open(join(supervisorPath, 'cgroup.procs'), constants.O_WRONLY | constants.O_NOFOLLOW);
    try {
      await file.write('0');
    } finally {
      await file.close();
    }
  } catch {
    // The tree is being closed, or this process may not move: nothing depends on it.
  }
}
