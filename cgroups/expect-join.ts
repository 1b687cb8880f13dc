// Takes the wait out of the next process's way into a cgroup.
import { close, constants, openSync, write } from 'node:fs';
import { join } from 'node:path';
import type { Tree } from './tree.ts';

/**
 * Tells the kernel that a process will soon join a cgroup. The first join after a pause waits for an RCU grace period
 * (4 to 12 ms: the kernel's lock around joins and forks has to leave its fast path), those that follow within a few
 * milliseconds do not. This begins that wait now, beside everything else, by moving this process to where it is.
 * Resolves when it is over; a refusal means only that the next join waits by itself.
 */
export function expectJoin({ supervisorPath }: Tree): Promise<void> {
  const flags = constants.O_WRONLY | constants.O_NOFOLLOW;
  return new Promise((resolve) => {
    let fd: number;
    try {
      fd = openSync(join(supervisorPath, 'cgroup.procs'), flags);
    } catch {
      return resolve(); // the tree is being closed
    }
    // In the thread pool from this moment on: the caller keeps the event loop busy for a while.
    write(fd, '0', () => close(fd, () => resolve()));
  });
}
