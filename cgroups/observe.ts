// Watches one call: its counters through descriptors that were opened before anything ran, its state through
// inotify with a slow poll behind it. Only reads.
import { closeSync, constants, type FSWatcher, openSync, readSync, watch } from 'node:fs';
import { join } from 'node:path';
import type { CallGroup } from './create.ts';
import { counter } from './files.ts';

/** inotify on kernfs was seen to fire every time; the poll is for the kernel where it does not. */
const POLL_MS = 250;

/** Open descriptors, null where this kernel has no such file. */
export interface Counters {
  events: number | null;
  memoryCurrent: number | null;
  memoryPeak: number | null;
  memoryEvents: number | null;
  agentMemoryEvents: number | null;
  toolsMemoryEvents: number | null;
  pidsCurrent: number | null;
  pidsPeak: number | null;
  pidsEvents: number | null;
  agentPidsEvents: number | null;
  toolsPidsEvents: number | null;
  cpuStat: number | null;
  ioStat: number | null;
}

/** State of a call; the counts are null without the memory controller. */
export interface CallState {
  populated: boolean;
  frozen: boolean;
  agentOomKills: number | null;
  toolOomKills: number | null;
}

export function openCounters(path: string, agentPath: string, toolsPath: string): Counters {
  return {
    events: openOptional(join(path, 'cgroup.events')),
    memoryCurrent: openOptional(join(path, 'memory.current')),
    memoryPeak: openOptional(join(path, 'memory.peak')),
    memoryEvents: openOptional(join(path, 'memory.events')),
    agentMemoryEvents: openOptional(join(agentPath, 'memory.events.local')),
    toolsMemoryEvents: openOptional(join(toolsPath, 'memory.events')),
    pidsCurrent: openOptional(join(path, 'pids.current')),
    pidsPeak: openOptional(join(path, 'pids.peak')),
    pidsEvents: openOptional(join(path, 'pids.events')),
    agentPidsEvents: openOptional(join(agentPath, 'pids.events')),
    toolsPidsEvents: openOptional(join(toolsPath, 'pids.events')),
    cpuStat: openOptional(join(path, 'cpu.stat')),
    ioStat: openOptional(join(path, 'io.stat')),
  };
}

function openOptional(path: string): number | null {
  try {
    return openSync(path, constants.O_RDONLY | constants.O_NOFOLLOW);
  } catch {
    // The kernel or the tree has no such counter: its readings are null.
    return null;
  }
}

/** Closes every descriptor; readings are null from then on. Safe to call twice. */
export function closeCounters(counters: Counters): void {
  for (const name of Object.keys(counters) as (keyof Counters)[]) {
    const fd = counters[name];
    counters[name] = null;
    if (fd !== null) closeSync(fd);
  }
}

const buffer = Buffer.alloc(65536);

/** The present content behind a descriptor, or null when there is none or the cgroup is gone (ENODEV). */
export function readCounter(fd: number | null): string | null {
  if (fd === null) return null;
  try {
    return buffer.toString('latin1', 0, readSync(fd, buffer, 0, buffer.length, 0));
  } catch {
    // ENODEV: the cgroup was removed under the descriptor.
    return null;
  }
}

/** What the call is doing now. A cgroup that is gone is neither populated nor frozen. */
export function readState(call: CallGroup): CallState {
  const events = readCounter(call.counters.events);
  return {
    populated: counter(events, 'populated') === 1,
    frozen: counter(events, 'frozen') === 1,
    agentOomKills: counter(readCounter(call.counters.agentMemoryEvents), 'oom_kill'),
    toolOomKills: counter(readCounter(call.counters.toolsMemoryEvents), 'oom_kill'),
  };
}

/**
 * Calls the listener after each change of the call's state, never with the same state twice and never before
 * this returns. The returned function ends it. Does not keep the process alive.
 */
export function onEvents(call: CallGroup, listener: (state: CallState) => void): () => void {
  let last = JSON.stringify(readState(call));
  let ended = false;
  const look = (): void => {
    if (ended) return;
    const state = readState(call);
    const text = JSON.stringify(state);
    if (text === last) return;
    last = text;
    listener(state);
  };
  const files = [
    join(call.path, 'cgroup.events'),
    join(call.agentPath, 'memory.events.local'),
    join(call.toolsPath, 'memory.events'),
  ];
  const watchers = files.map((file) => watchFile(file, look)).filter((watcher) => watcher !== null);
  const poll = setInterval(look, POLL_MS);
  poll.unref();
  return () => {
    ended = true;
    clearInterval(poll);
    for (const watcher of watchers) watcher.close();
  };
}

function watchFile(file: string, look: () => void): FSWatcher | null {
  try {
    const watcher = watch(file, { persistent: false }, look);
    // The watched file goes away with its cgroup; the poll notices what matters.
    watcher.on('error', () => watcher.close());
    return watcher;
  } catch {
    // No such file here, or no inotify watch left: the poll alone sees the change.
    return null;
  }
}

/** Resolves true once no process is left in the call, false when the time is over before. */
export async function waitEmpty(call: CallGroup, options: { timeoutMs: number }): Promise<boolean> {
  if (!readState(call).populated) return true;
  return await new Promise<boolean>((resolve) => {
    const finish = (empty: boolean): void => {
      clearTimeout(timer);
      stop();
      resolve(empty);
    };
    const stop = onEvents(call, (state) => {
      if (!state.populated) finish(true);
    });
    const timer = setTimeout(() => finish(false), options.timeoutMs);
    // It may have emptied between the first look and the watch.
    if (!readState(call).populated) finish(true);
  });
}
