// Reads processes from /proc. A pid alone is never an identity: start ticks go with it.
import { readdirSync, readFileSync } from 'node:fs';

/** A flag in field 9 of /proc/PID/stat; include/linux/sched.h. */
const PF_EXITING = 0x4;

export interface ProcessEntry {
  pid: number;
  parentPid: number;
  groupId: number;
  sessionId: number;
  startTicks: string;
  /** A zombie, or on its way to become one. */
  isEnding: boolean;
}

/** One process, or null when it is gone. See proc_pid_stat(5). */
export function readProcess(pid: number): ProcessEntry | null {
  let stat: string;
  try {
    stat = readFileSync(`/proc/${pid}/stat`, 'latin1');
  } catch {
    return null; // Gone, or no /proc here.
  }
  // The name in parentheses may contain blanks and parentheses: fields count from the last one.
  const fields = stat.slice(stat.lastIndexOf(')') + 2).split(' ');
  return {
    pid,
    parentPid: Number(fields[1]),
    groupId: Number(fields[2]),
    sessionId: Number(fields[3]),
    startTicks: fields[19] ?? '',
    isEnding: fields[0] === 'Z' || fields[0] === 'X' || (Number(fields[6]) & PF_EXITING) !== 0,
  };
}

/** When a process started, in clock ticks since boot, or null when there is none of that pid. */
export function startTicksOf(pid: number): string | null {
  return readProcess(pid)?.startTicks ?? null;
}

/** Every visible process. */
export function listProcesses(): ProcessEntry[] {
  let names: string[];
  try {
    names = readdirSync('/proc');
  } catch {
    return []; // Not Linux.
  }
  return names
    .filter((name) => /^\d+$/.test(name))
    .map((name) => readProcess(Number(name)))
    .filter((entry) => entry !== null);
}

/** The pids in a cgroup.procs file; 0 stands for processes outside this pid namespace and is left out. */
export function readGroup(procsFile: string): Set<number> {
  try {
    const pids = readFileSync(procsFile, 'latin1').split('\n').map(Number);
    return new Set(pids.filter((pid) => pid > 0));
  } catch {
    return new Set(); // Not readable: the process tree alone must do.
  }
}

/** Sends a signal to exactly this process. True when it was sent. */
export function signalProcess(entry: { pid: number; startTicks: string }, signal: NodeJS.Signals): boolean {
  if (startTicksOf(entry.pid) !== entry.startTicks) return false;
  try {
    process.kill(entry.pid, signal);
    return true;
  } catch {
    return false; // Gone in between, or another user's.
  }
}
