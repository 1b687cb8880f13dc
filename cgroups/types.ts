// The shapes that cgroups/ takes and gives.

/** What a control is worth on this machine. `partial`: works, but not for everything that it should hold. */
export type Level = 'full' | 'partial' | 'none';

export type Control = 'memory' | 'swap' | 'pids' | 'cpu' | 'io' | 'kill' | 'freeze' | 'events' | 'tool-oom';

export interface ControlReport {
  level: Level;
  /** One sentence: why the level is what it is. Present unless `full`. */
  reason?: string;
  /** One sentence: what an operator does to mend it. Present unless `full`. */
  remedy?: string;
}

export interface ProbeReport {
  /** `unified`: every controller on one hierarchy; `hybrid`: cgroup2 beside v1; `v1`; `none`. */
  hierarchy: 'unified' | 'hybrid' | 'v1' | 'none';
  /** The delegated directory that the tree is made below, or null where there is none. */
  root: string | null;
  /** Kernel release, `uname -r`. */
  kernel: string;
  controls: Record<Control, ControlReport>;
}

/** Limits of one call. */
export interface CallLimits {
  memoryBytes: number;
  pids: number;
  /** 100 = one core. */
  cpuPercent: number;
  /** 1 to 10000, 100 when absent. */
  cpuWeight?: number;
}

/** Totals of a tenant's slice; an absent value means no limit of its own. */
export interface SliceLimits {
  memoryBytes?: number;
  pids?: number;
  cpuPercent?: number;
}

/** One sample of a call's counters. Fields that the kernel does not offer are null. */
export interface CallUsage {
  memoryBytes: number | null;
  memoryPeakBytes: number | null;
  pids: number | null;
  pidsPeak: number | null;
  cpuUsec: number | null;
  ioReadBytes: number | null;
  ioWriteBytes: number | null;
}

/** What the kernel counted over the life of a call; null where the counter does not exist. */
export interface CallEvidence extends CallUsage {
  /** `oom_kill` of the agent leaf's own memory.events.local: the agent itself was killed for memory. */
  agentOomKills: number | null;
  /** Kills for memory in the tools leaf. */
  toolOomKills: number | null;
  /** All kills for memory in the call (hierarchical). */
  oomKills: number | null;
  /** Times that a fork was refused at pids.max. */
  pidsMaxHits: number | null;
  /** Times that memory.max was met, kills or not. */
  memoryMaxHits: number | null;
}
