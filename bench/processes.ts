// The processes of one running djinnd as /proc shows them: which is which, their processor time, their memory.
import { readdirSync, readFileSync } from 'node:fs';

export const ROLES = ['parent', 'djinnd', 'spawner', 'postgres'] as const;
export type Role = (typeof ROLES)[number];
export type Family = Record<Role, number[]>;

/** Ticks of /proc/PID/stat per second: 100 on every Linux that Node runs on. */
const TICK_MS = 10;

interface Stat {
  pid: number;
  parent: number;
  name: string;
  ownMs: number;
  childrenMs: number;
}

function statOf(pid: number): Stat | null {
  try {
    const text = readFileSync(`/proc/${pid}/stat`, 'latin1');
    const close = text.lastIndexOf(')');
    const fields = text
      .slice(close + 2)
      .split(' ')
      .map(Number);
    const at = (field: number): number => (fields[field - 3] ?? 0) * TICK_MS;
    const name = text.slice(text.indexOf('(') + 1, close);
    return { pid, parent: fields[1] ?? 0, name, ownMs: at(14) + at(15), childrenMs: at(16) + at(17) };
  } catch {
    return null; // it has ended
  }
}

/** Finds them below the parent, as they are now. */
export function familyOf(parent: number): Family {
  const stats = readdirSync('/proc')
    .filter((name) => /^\d+$/.test(name))
    .flatMap((name) => statOf(Number(name)) ?? []);
  const family: Family = { parent: [parent], djinnd: [], spawner: [], postgres: [] };
  for (const { pid } of stats.filter((stat) => stat.parent === parent)) {
    const command = readFileSync(`/proc/${pid}/cmdline`, 'latin1').split('\0');
    if (command.includes('serve')) family.djinnd.push(pid);
    else if (command.includes('spawner')) family.spawner.push(pid);
    else if (command[0]?.endsWith('/postgres'))
      family.postgres.push(pid, ...stats.filter((stat) => stat.parent === pid).map((stat) => stat.pid));
  }
  return family;
}

export interface Cpu {
  djinnd: number;
  spawner: number;
  postgres: number;
}

/** Processor time in milliseconds since each was started, database connections that have ended included. */
export function cpuOf(parent: number): Cpu {
  const { djinnd, spawner, postgres } = familyOf(parent);
  const own = (pids: number[]): number => pids.reduce((sum, pid) => sum + (statOf(pid)?.ownMs ?? 0), 0);
  const ended = statOf(postgres[0] ?? 0)?.childrenMs ?? 0;
  return { djinnd: own(djinnd), spawner: own(spawner), postgres: own(postgres) + ended };
}

/** What was used between two readings. */
export function cpuBetween(before: Cpu, after: Cpu): Cpu {
  const { djinnd, spawner, postgres } = after;
  return {
    djinnd: djinnd - before.djinnd,
    spawner: spawner - before.spawner,
    postgres: postgres - before.postgres,
  };
}

/** Processor time of this process's ended children, in milliseconds. */
export const ownChildrenCpuMs = (): number => statOf(process.pid)?.childrenMs ?? 0;

export interface Memory {
  rssBytes: number;
  /** Shared pages divided by the number of their users. */
  pssBytes: number;
}

/** Resident memory of all of them together. */
export function memoryOf(pids: readonly number[]): Memory {
  const sum: Memory = { rssBytes: 0, pssBytes: 0 };
  for (const pid of pids) {
    const text = readFileSync(`/proc/${pid}/smaps_rollup`, 'latin1');
    const field = (name: string): number =>
      Number(new RegExp(`^${name}:\\s+(\\d+)`, 'm').exec(text)?.[1] ?? 0) * 1024;
    sum.rssBytes += field('Rss');
    sum.pssBytes += field('Pss');
  }
  return sum;
}
