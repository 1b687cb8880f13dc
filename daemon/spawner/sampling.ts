// Turns a call's counters into `resources` lines at a fixed pace. Only fields that the kernel has.
import type { CallUsage } from '../../cgroups/index.ts';

/** The counters that are there. */
export function presentCounters(usage: CallUsage): Record<string, number> {
  return Object.fromEntries(
    Object.entries(usage).filter((entry): entry is [string, number] => typeof entry[1] === 'number'),
  );
}

/** Writes one sample every `everyMs`; the returned timer ends it. */
export function startSampling(
  everyMs: number,
  read: () => CallUsage,
  write: (line: { type: 'resources' } & Record<string, unknown>) => void,
): NodeJS.Timeout {
  return setInterval(() => {
    const counters = presentCounters(read());
    if (Object.keys(counters).length > 0) write({ type: 'resources', ...counters });
  }, everyMs);
}
