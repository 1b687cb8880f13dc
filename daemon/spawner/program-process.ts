// Finds the engine's program among the processes of its pid namespace and signals it.
import { readFileSync } from 'node:fs';

/**
 * Pid of the program: process 2 of the namespace whose init is `initPid`, or null when it is gone.
 * Bubblewrap's init has the program as its first child and ends with it, so number 2 cannot be anything else.
 */
export function findProgramPid(initPid: number): number | null {
  let children: string;
  try {
    children = readFileSync(`/proc/${initPid}/task/${initPid}/children`, 'latin1');
  } catch {
    return null; // init is gone, and the program with it
  }
  for (const pid of children.split(' ').filter(Boolean)) {
    try {
      const ids = /^NSpid:.*\s(\d+)$/m.exec(readFileSync(`/proc/${pid}/status`, 'latin1'));
      if (ids?.[1] === '2') return Number(pid);
    } catch {
      // ended between the two reads
    }
  }
  return null;
}

/** Sends a signal; a process that is gone is not an error. */
export function signalProcess(pid: number, signal: NodeJS.Signals): void {
  try {
    process.kill(pid, signal);
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code !== 'ESRCH') throw error;
  }
}
