// Finds out what each control is worth here by trying it: makes a probe cgroup, writes every limit, reads it
// back, removes it. Believes no file name and no file system that is not cgroup2.
import { mkdirSync, rmdirSync } from 'node:fs';
import { release } from 'node:os';
import { dirname, join } from 'node:path';
import { errnoOf, TreeError } from './errors.ts';
import { fileSystemType, isCgroup2, readPids, readWords } from './files.ts';
import { defaultRoot, detectHierarchy, type Hierarchy } from './hierarchy.ts';
import type { Setting } from './limits.ts';
import { removeTree } from './remove.ts';
import { claimRoot, enableOnce, ensureRoot, PROBE_PREFIX } from './tree.ts';
import { probeEvents, probeFreeze, probeIo, probeKill, tryLimits } from './trials.ts';
import type { Control, ControlReport, ProbeReport } from './types.ts';

const CONTROLLERS = ['memory', 'pids', 'cpu', 'io'] as const;

/** Where to look. */
export interface ProbeOptions {
  /** Where the cgroup file systems are mounted; `/sys/fs/cgroup`. */
  cgroupRoot?: string;
  /** `/proc`. */
  procRoot?: string;
  /**
   * The directory that was given to this program alone. It is made when its parent exists (and removed again),
   * and processes that sit in it are moved to its `supervisor` leaf, as openTree does. Without it the own
   * cgroup is looked at; it is taken for ours when no other process is in it, as in a unit of its own.
   */
  delegated?: string;
}

/** What each control is worth: `full` was written and read back, all else says why and what to do. Never throws. */
export async function probe(options: ProbeOptions = {}): Promise<ProbeReport> {
  const procRoot = options.procRoot ?? '/proc';
  const hierarchy = detectHierarchy(options.cgroupRoot ?? '/sys/fs/cgroup', procRoot);
  const base = { hierarchy: hierarchy.kind, kernel: release() };
  if (hierarchy.mount === null && options.delegated === undefined) {
    return { ...base, root: null, controls: allNone(hierarchy.reason ?? '', hierarchy.remedy ?? '') };
  }
  const root = options.delegated ?? defaultRoot(hierarchy.mount ?? '', procRoot);
  try {
    const created = ensureRoot(root, CONTROLLERS, procRoot);
    try {
      if (isOurs(root, options)) await claimRoot(root);
      return { ...base, root, controls: await probeControls(root, hierarchy, procRoot) };
    } finally {
      if (created) rmdirSync(root);
    }
  } catch (error) {
    const { reason, remedy } = refusal(root, error);
    return { ...base, root: null, controls: allNone(reason, remedy) };
  }
}

/** Whether processes that sit in the root may be moved: without that no controller can be enabled. */
function isOurs(root: string, options: ProbeOptions): boolean {
  const pids = readPids(root);
  if (pids.length === 0) return false;
  return options.delegated !== undefined || pids.every((pid) => pid === process.pid);
}

/** All controls as `none`, for the same reason. */
export function allNone(reason: string, remedy: string): Record<Control, ControlReport> {
  const none: ControlReport = { level: 'none', reason, remedy };
  return {
    memory: none,
    swap: none,
    pids: none,
    cpu: none,
    io: none,
    kill: none,
    freeze: none,
    events: none,
    'tool-oom': none,
  };
}

function refusal(root: string, error: unknown): { reason: string; remedy: string } {
  const errno = error instanceof TreeError ? error.errno : errnoOf(error);
  if (error instanceof TreeError && error.code === 'not_cgroup2') {
    const type = fileSystemType(root);
    const what =
      type === null ? 'does not exist' : `has statfs type 0x${type.toString(16)}, not cgroup2's 0x63677270`;
    return {
      reason: `${root} ${what}: writes there limit nothing`,
      remedy: 'name a directory on the cgroup2 mount',
    };
  }
  if (errno === 'EROFS') {
    const remedy =
      'mount cgroup2 writable (a container needs a private cgroup namespace and a writable /sys/fs/cgroup)';
    return { reason: `${root} is on a read-only mount (EROFS)`, remedy };
  }
  if (errno === 'EACCES' || errno === 'EPERM') {
    const remedy = 'run the spawner as root, or in a unit with Delegate=yes of its own user';
    return { reason: `no cgroup can be made in ${root} (${errno})`, remedy };
  }
  const message = error instanceof Error ? error.message : String(error);
  return { reason: message, remedy: 'delegate a writable cgroup v2 directory: Delegate=yes in the unit' };
}

async function probeControls(
  root: string,
  hierarchy: Hierarchy,
  procRoot: string,
): Promise<Record<Control, ControlReport>> {
  const missing = Object.fromEntries(CONTROLLERS.map((name) => [name, whyMissing(root, name, hierarchy)]));
  const dir = join(root, `${PROBE_PREFIX}${process.pid}-${Date.now().toString(36)}`);
  mkdirSync(dir);
  try {
    const settle = (controller: string, settings: Setting[]): ControlReport =>
      missing[controller] ?? tryLimits(dir, settings, procRoot);
    return {
      memory: settle('memory', [
        { control: 'memory', file: 'memory.max', value: '67108864' },
        { control: 'memory', file: 'memory.high', value: '66060288' },
      ]),
      swap: settle('memory', [{ control: 'swap', file: 'memory.swap.max', value: '0' }]),
      pids: settle('pids', [{ control: 'pids', file: 'pids.max', value: '16' }]),
      cpu: settle('cpu', [
        { control: 'cpu', file: 'cpu.max', value: '50000 100000' },
        { control: 'cpu', file: 'cpu.weight', value: '50' },
      ]),
      io: missing.io ?? probeIo(dir),
      kill: probeKill(dir),
      freeze: probeFreeze(dir),
      events: probeEvents(dir),
      'tool-oom': settle('memory', [{ control: 'tool-oom', file: 'memory.oom.group', value: '1' }]),
    };
  } finally {
    await removeTree(dir);
  }
}

/** Enables the controller for the root's children; what stands in the way, or null when it is enabled. */
function whyMissing(root: string, name: string, hierarchy: Hierarchy): ControlReport | null {
  if (readWords(join(root, 'cgroup.controllers')).includes(name)) {
    const errno = enableOnce(root, name);
    if (errno === null) return null;
    const pids = readPids(root);
    const held = pids.length > 0 ? `: ${pids.length} processes sit in it, such as ${pids[0]}` : '';
    const remedy = `move the processes of ${root} to a leaf below it, or give the spawner a cgroup of its own (Delegate=yes)`;
    return {
      level: 'none',
      reason: `controller ${name} cannot be enabled in ${root} (${errno})${held}`,
      remedy,
    };
  }
  if (hierarchy.reason !== null) {
    return {
      level: 'none',
      reason: `no ${name} controller: ${hierarchy.reason}`,
      remedy: hierarchy.remedy ?? '',
    };
  }
  const parent = dirname(root);
  if (isCgroup2(parent) && readWords(join(parent, 'cgroup.controllers')).includes(name)) {
    const remedy = `Delegate=cpu memory pids io in the unit, or write +${name} to ${parent}/cgroup.subtree_control`;
    return { level: 'none', reason: `${parent}/cgroup.subtree_control does not hand ${name} down`, remedy };
  }
  const remedy = `boot without cgroup_disable=${name} and cgroup v1, on a kernel that has the controller; above a nested cgroup hand it down`;
  return { level: 'none', reason: `${root}/cgroup.controllers has no ${name}`, remedy };
}
