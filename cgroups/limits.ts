// Which interface file carries which limit, and the proof that a written limit holds. Knows no tree.
import { join } from 'node:path';
import { errnoOf, LimitError } from './errors.ts';
import { readOptional, readValue, writeValue } from './files.ts';
import type { CallLimits, Control, SliceLimits } from './types.ts';

const MIB = 1024 * 1024;
/** The kernel rounds memory limits down to its page; 64 KiB is the largest page of a supported machine. */
const LARGEST_PAGE_BYTES = 65536;
const CPU_PERIOD_USEC = 100_000;

/** One value for one interface file. */
export interface Setting {
  control: Control | 'cgroup';
  file: string;
  value: string;
}

/** `cpu.max` for a share of cores: 100 is one core. */
export function cpuMax(percent: number | undefined): string {
  if (percent === undefined) return `max ${CPU_PERIOD_USEC}`;
  return `${Math.round((percent * CPU_PERIOD_USEC) / 100)} ${CPU_PERIOD_USEC}`;
}

/**
 * memory.max of the tools leaf. What is left out is the agent's: with it the tools always meet their own limit
 * first, so that the kernel never has to choose between the agent and many small tool processes.
 */
export function toolsMemoryBytes(memoryBytes: number): number {
  const reserve = Math.min(128 * MIB, Math.max(16 * MIB, Math.floor(memoryBytes / 8)));
  return pageFloor(memoryBytes - Math.min(reserve, Math.floor(memoryBytes / 2)));
}

/** pids.max of the tools leaf: a fork bomb in a tool leaves the agent room to run another tool. */
export function toolsPids(pids: number): number {
  return pids - Math.min(24, Math.floor(pids / 4));
}

/**
 * memory.high just below memory.max: the kernel reclaims cache a little earlier. Not lower, for with swap off an
 * allocation above it only sleeps: of 256 MiB, the last tenth took 18 s (6.12), where a plain limit takes none.
 */
export function memoryHigh(memoryBytes: number): number {
  return pageFloor(memoryBytes - Math.min(Math.floor(memoryBytes / 64), 32 * MIB));
}

function pageFloor(bytes: number): number {
  return bytes - (bytes % 4096);
}

/** Throws LimitError for a limit that no kernel could hold (NaN, 0, fractions), before anything is made. */
export function checkLimits(limits: CallLimits | SliceLimits): void {
  const least = { memoryBytes: MIB, pids: 1, cpuPercent: 1, cpuWeight: 1 };
  const controls = { memoryBytes: 'memory', pids: 'pids', cpuPercent: 'cpu', cpuWeight: 'cpu' } as const;
  for (const [name, value] of Object.entries(limits) as [keyof typeof least, number | undefined][]) {
    if (value === undefined) continue;
    const whole = name === 'cpuPercent' ? Number.isFinite(value) : Number.isSafeInteger(value);
    if (whole && value >= least[name]) continue;
    throw new LimitError(controls[name], name, `a number from ${least[name]}`, String(value));
  }
}

/** The settings of a tenant's slice; an absent total is written as `max`, so that an earlier one does not stay. */
export function sliceSettings(limits: SliceLimits, controllers: readonly string[]): Setting[] {
  const memory = limits.memoryBytes === undefined ? 'max' : String(pageFloor(limits.memoryBytes));
  const all: Setting[] = [
    { control: 'memory', file: 'memory.max', value: memory },
    { control: 'pids', file: 'pids.max', value: limits.pids === undefined ? 'max' : String(limits.pids) },
    { control: 'cpu', file: 'cpu.max', value: cpuMax(limits.cpuPercent) },
  ];
  return all.filter((setting) => controllers.includes(controllerOf(setting)));
}

/** The settings of a call's own cgroup. */
export function callSettings(limits: CallLimits, controllers: readonly string[]): Setting[] {
  const all: Setting[] = [
    { control: 'memory', file: 'memory.max', value: String(pageFloor(limits.memoryBytes)) },
    { control: 'memory', file: 'memory.high', value: String(memoryHigh(limits.memoryBytes)) },
    { control: 'swap', file: 'memory.swap.max', value: '0' },
    { control: 'pids', file: 'pids.max', value: String(limits.pids) },
    { control: 'cpu', file: 'cpu.max', value: cpuMax(limits.cpuPercent) },
    { control: 'cpu', file: 'cpu.weight', value: String(limits.cpuWeight ?? 100) },
  ];
  return all.filter((setting) => controllers.includes(controllerOf(setting)));
}

/** The settings of the leaf that tools run in. */
export function toolsSettings(limits: CallLimits, controllers: readonly string[]): Setting[] {
  const all: Setting[] = [
    { control: 'tool-oom', file: 'memory.oom.group', value: '1' },
    { control: 'tool-oom', file: 'memory.max', value: String(toolsMemoryBytes(limits.memoryBytes)) },
    { control: 'pids', file: 'pids.max', value: String(toolsPids(limits.pids)) },
  ];
  return all.filter((setting) => controllers.includes(controllerOf(setting)));
}

function controllerOf(setting: Setting): string {
  return setting.file.slice(0, setting.file.indexOf('.'));
}

/** Writes one setting and reads it back. Returns what the kernel holds; throws LimitError when it differs. */
export function applySetting(dir: string, setting: Setting, procRoot = '/proc'): string {
  const file = join(dir, setting.file);
  let got: string;
  try {
    writeValue(file, setting.value);
    got = readValue(file);
  } catch (error) {
    const errno = errnoOf(error);
    // No swap accounting in this kernel: without any swap there is nothing to limit.
    if (setting.control === 'swap' && errno === 'ENOENT' && !hasSwap(procRoot)) return 'no swap';
    throw new LimitError(setting.control, file, setting.value, errno);
  }
  if (!holds(setting, got)) throw new LimitError(setting.control, file, setting.value, got);
  return got;
}

/** Writes all settings of one cgroup, in order, each read back. */
export function applySettings(dir: string, settings: readonly Setting[]): Record<string, string> {
  const applied: Record<string, string> = {};
  for (const setting of settings) applied[setting.file] = applySetting(dir, setting);
  return applied;
}

function holds(setting: Setting, got: string): boolean {
  if (got === setting.value) return true;
  if (!setting.file.startsWith('memory.') || setting.value === 'max') return false;
  const missing = Number(setting.value) - Number(got);
  return missing >= 0 && missing < LARGEST_PAGE_BYTES && Number(got) > 0;
}

/** Whether any swap area is in use; an unreadable list counts as swap. */
export function hasSwap(procRoot: string): boolean {
  const swaps = readOptional(join(procRoot, 'swaps'));
  return swaps === null || swaps.split('\n').length > 1;
}
