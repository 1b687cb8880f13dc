// One parent per directory: a file naming the holder's process and its start time, so that a reused pid is not it.
import { linkSync, readFileSync, unlinkSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';

const NAME = 'start.lock';

export interface Lock {
  release(): void;
}

/** Takes the directory for this process (again, after it replaced itself). Null while another live process holds it. */
export function takeLock(dir: string): Lock | null {
  const path = join(dir, NAME);
  const mine = identity(process.pid) ?? '';
  const lock = { release: () => unlinkSync(path) };
  if (read(path) === mine) return lock;
  const draft = `${path}.${process.pid}`;
  writeFileSync(draft, mine, { mode: 0o644 });
  try {
    for (let tries = 0; tries < 10; tries++) {
      if (linked(draft, path)) return lock;
      const holder = read(path);
      if (holder !== null && alive(holder)) return null;
      if (holder !== null) unlinkSync(path);
    }
    return null;
  } finally {
    unlinkSync(draft);
  }
}

/** Whether a live process holds the directory. */
export function isLocked(dir: string): boolean {
  const holder = read(join(dir, NAME));
  return holder !== null && alive(holder);
}

function linked(draft: string, path: string): boolean {
  try {
    linkSync(draft, path);
    return true;
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code === 'EEXIST') return false;
    throw error;
  }
}

function alive(holder: string): boolean {
  const pid = Number(holder.split(' ')[0]);
  return Number.isSafeInteger(pid) && pid > 0 && identity(pid) === holder;
}

/** `pid starttime bootid`; field 22 of /proc/PID/stat is counted after the name, which may hold anything. */
function identity(pid: number): string | null {
  try {
    const stat = readFileSync(`/proc/${pid}/stat`, 'utf8');
    const fields = stat.slice(stat.lastIndexOf(')') + 2).split(' ');
    if (fields[0] === 'Z') return null;
    return `${pid} ${fields[19]} ${readFileSync('/proc/sys/kernel/random/boot_id', 'utf8').trim()}`;
  } catch {
    return null; // no such process
  }
}

function read(path: string): string | null {
  try {
    return readFileSync(path, 'utf8');
  } catch {
    return null; // nobody has it
  }
}
