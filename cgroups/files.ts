// Reading and writing of the kernel's interface files. Never creates one: on a tmpfs that poses as a cgroup
// a write with O_CREAT would succeed and mean nothing.
import { closeSync, constants, openSync, readdirSync, readFileSync, statfsSync, writeSync } from 'node:fs';
import { join } from 'node:path';

/** `CGROUP2_SUPER_MAGIC` of linux/magic.h. */
export const CGROUP2_MAGIC = 0x63677270;

/** Whether the path lies on a cgroup v2 file system; false when it does not exist. */
export function isCgroup2(path: string): boolean {
  return fileSystemType(path) === CGROUP2_MAGIC;
}

/** `f_type` of statfs(2), or null when the path does not exist or may not be read. */
export function fileSystemType(path: string): number | null {
  try {
    return statfsSync(path).type;
  } catch {
    // Absent and unreadable mean the same to every caller: there is nothing to use here.
    return null;
  }
}

/** Writes one value to an existing interface file. Throws the system call's error. */
export function writeValue(path: string, value: string): void {
  const fd = openSync(path, constants.O_WRONLY | constants.O_NOFOLLOW);
  try {
    writeSync(fd, value);
  } finally {
    closeSync(fd);
  }
}

/** The content of an interface file without its last line feed. Throws the system call's error. */
export function readValue(path: string): string {
  return readFileSync(path, 'latin1').trimEnd();
}

/** As `readValue`; null when the file cannot be read. */
export function readOptional(path: string): string | null {
  try {
    return readValue(path);
  } catch {
    // The kernel of this machine does not offer the file, or the cgroup is gone.
    return null;
  }
}

/** The words of a space-separated file such as `cgroup.controllers`. */
export function readWords(path: string): string[] {
  return (readOptional(path) ?? '').split(/\s+/).filter((word) => word !== '');
}

/** The pids in `cgroup.procs`, without the 0 that stands for a process of another pid namespace. */
export function readPids(dir: string): number[] {
  return readWords(join(dir, 'cgroup.procs'))
    .map(Number)
    .filter((pid) => Number.isInteger(pid) && pid > 0);
}

/** Names of the cgroups directly below one; empty when it is gone. */
export function childNames(dir: string): string[] {
  try {
    return readdirSync(dir, { withFileTypes: true })
      .filter((entry) => entry.isDirectory())
      .map((entry) => entry.name);
  } catch {
    // Removed in the meantime: it has no children.
    return [];
  }
}

/** One counter of a `key value` file such as `memory.events`; null when it is not there. */
export function counter(text: string | null, key: string): number | null {
  const match = text === null ? null : new RegExp(`^${key} (\\d+)$`, 'm').exec(text);
  return match ? Number(match[1]) : null;
}
