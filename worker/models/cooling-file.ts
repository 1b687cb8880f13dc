// Remembers over runs which models are left alone, for command lines that run one after the other. The file is only a
// hint: a run goes on without it. It holds addresses and times, no keys.
import { mkdirSync, readFileSync, renameSync, writeFileSync } from 'node:fs';
import { dirname } from 'node:path';
import type { Cooling } from './cooling.ts';

/** A time further ahead than any model cools down comes from a clock that was set back. */
const MAX_AHEAD_MS = 15 * 60_000;
/** An expired time is kept for a while, so that the next run knows that its request is a probe. */
const KEPT_MS = 60 * 60_000;

function readFile(path: string, now: number): Map<string, number> {
  try {
    const value: unknown = JSON.parse(readFileSync(path, 'utf8'));
    const known = Object.entries(value as Record<string, unknown>).filter(
      (pair): pair is [string, number] =>
        typeof pair[1] === 'number' && pair[1] < now + MAX_AHEAD_MS && pair[1] > now - KEPT_MS,
    );
    return new Map(known);
  } catch {
    // Absent, or not ours: nothing is known.
    return new Map();
  }
}

function writeFile(path: string, times: Map<string, number>): void {
  try {
    mkdirSync(dirname(path), { recursive: true, mode: 0o700 });
    const unfinished = `${path}.${process.pid}`;
    writeFileSync(unfinished, `${JSON.stringify(Object.fromEntries(times))}\n`, { mode: 0o600 });
    renameSync(unfinished, path);
  } catch {
    // A full or read-only disk: the next run asks the dead model once more.
  }
}

/** The times of `path`; each change is written at once, over what other processes have written meanwhile. */
export function openCoolingFile(path: string, now: () => number): Cooling {
  const times = readFile(path, now());
  const change = (key: string, untilMs: number | null): void => {
    const latest = readFile(path, now());
    if (untilMs === null) latest.delete(key);
    else latest.set(key, untilMs);
    writeFile(path, latest);
  };
  return {
    get: (key) => times.get(key),
    has: (key) => times.has(key),
    set(key, untilMs) {
      times.set(key, untilMs);
      change(key, untilMs);
    },
    delete(key) {
      if (times.delete(key)) change(key, null);
    },
  };
}
