// What the kernel counted for one call. Read it after `populated 0` and before removeCall: only then are the
// numbers final.
import type { CallGroup } from './create.ts';
import { counter } from './files.ts';
import { readCounter } from './observe.ts';
import type { CallEvidence, CallUsage } from './types.ts';

/** One sample of the call's counters. */
export function readUsage(call: CallGroup): CallUsage {
  const { counters } = call;
  const io = readCounter(counters.ioStat);
  return {
    memoryBytes: number(readCounter(counters.memoryCurrent)),
    memoryPeakBytes: number(readCounter(counters.memoryPeak)),
    pids: number(readCounter(counters.pidsCurrent)),
    pidsPeak: number(readCounter(counters.pidsPeak)),
    cpuUsec: counter(readCounter(counters.cpuStat), 'usage_usec'),
    ioReadBytes: sumOf(io, 'rbytes'),
    ioWriteBytes: sumOf(io, 'wbytes'),
  };
}

/**
 * The counts over the call's life. `oom_kill` counts processes, not incidents. Only the agent leaf's own
 * memory.events.local tells that the agent was killed: memory.events adds up everything below it.
 */
export function readEvidence(call: CallGroup): CallEvidence {
  const { counters } = call;
  const memory = readCounter(counters.memoryEvents);
  // Since 6.11 a refused fork counts where the limit was met and upwards, before in the forking cgroup only.
  const pids = [counters.pidsEvents, counters.agentPidsEvents, counters.toolsPidsEvents]
    .map((fd) => counter(readCounter(fd), 'max'))
    .filter((hits) => hits !== null);
  return {
    ...readUsage(call),
    agentOomKills: counter(readCounter(counters.agentMemoryEvents), 'oom_kill'),
    toolOomKills: counter(readCounter(counters.toolsMemoryEvents), 'oom_kill'),
    oomKills: counter(memory, 'oom_kill'),
    pidsMaxHits: pids.length === 0 ? null : Math.max(...pids),
    memoryMaxHits: counter(memory, 'max'),
  };
}

function number(text: string | null): number | null {
  const value = text === null ? Number.NaN : Number.parseInt(text, 10);
  return Number.isNaN(value) ? null : value;
}

/** Sum of one key over all devices of io.stat; null when there is no such file. */
function sumOf(text: string | null, key: string): number | null {
  if (text === null) return null;
  let sum = 0;
  for (const match of text.matchAll(new RegExp(`\\b${key}=(\\d+)`, 'g'))) sum += Number(match[1]);
  return sum;
}
