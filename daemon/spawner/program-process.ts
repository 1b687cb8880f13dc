// The processes of one sandbox as seen from outside: its init, the program, and whether all are gone.
import { readFileSync } from 'node:fs';

/**
 * Pid of the program: process 2 of the namespace whose init is `initPid`, or null when it is gone.
 * Bubblewrap's init has the program as its first child, and the kernel gives low numbers once, so number 2 cannot be
 * anything else.
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

/** Start time of a process in clock ticks since boot (proc(5), field 22); null when it has ended. */
export function startTimeOf(pid: number): string | null {
  try {
    const stat = readFileSync(`/proc/${pid}/stat`, 'latin1');
    const [state, ...fields] = stat.slice(stat.lastIndexOf(')') + 2).split(' ');
    return state === 'Z' || state === 'X' ? null : (fields[18] ?? null);
  } catch {
    return null; // reaped
  }
}

/**
 * Resolves when the init of a pid namespace has ended, and so everything in it: the kernel lets init end last.
 * Bubblewrap's monitor ends a little before. False when it takes longer than `timeoutMs`.
 */
export async function waitGone(pid: number, startTime: string, timeoutMs: number): Promise<boolean> {
  const deadline = performance.now() + timeoutMs;
  for (let pauseMs = 1; startTimeOf(pid) === startTime; pauseMs = Math.min(pauseMs * 2, 50)) {
    if (performance.now() > deadline) return false;
    await new Promise((resolve) => setTimeout(resolve, pauseMs));
  }
  return true;
}
