// Tells which cgroup hierarchy this machine has, and the directory that would be ours. Makes and moves nothing.
import { basename, dirname, join } from 'node:path';
import { CGROUP2_MAGIC, fileSystemType, isCgroup2, readOptional } from './files.ts';
import { isTop, ownCgroup } from './tree.ts';
import type { ProbeReport } from './types.ts';

export interface Hierarchy {
  kind: ProbeReport['hierarchy'];
  /** Where cgroup2 is mounted, null without one. */
  mount: string | null;
  /** Why there is not every controller on one cgroup2 hierarchy, and the mend; null on a unified machine. */
  reason: string | null;
  remedy: string | null;
}

const MEND_UNIFIED =
  'boot with systemd.unified_cgroup_hierarchy=1 cgroup_no_v1=all on the kernel command line';

/**
 * The type of the file system decides, not what is found in it: in hybrid mode `/sys/fs/cgroup` is a tmpfs on
 * which mkdir and write succeed and limit nothing.
 */
export function detectHierarchy(cgroupRoot: string, procRoot: string): Hierarchy {
  const type = fileSystemType(cgroupRoot);
  if (type === CGROUP2_MAGIC) return { kind: 'unified', mount: cgroupRoot, reason: null, remedy: null };
  const what =
    type === null
      ? `${cgroupRoot} does not exist`
      : `${cgroupRoot} is no cgroup2 (statfs type 0x${type.toString(16)})`;
  const hybrid = join(cgroupRoot, 'unified');
  if (isCgroup2(hybrid)) {
    const reason = `hybrid mode: ${what}, only ${hybrid} is, and the controllers belong to cgroup v1`;
    return { kind: 'hybrid', mount: hybrid, reason, remedy: MEND_UNIFIED };
  }
  const v1 = /^[1-9]\d*:[^:]*:/m.test(readOptional(join(procRoot, 'self/cgroup')) ?? '');
  if (v1) return { kind: 'v1', mount: null, reason: `cgroup v1 only: ${what}`, remedy: MEND_UNIFIED };
  const remedy = `mount it: mount -t cgroup2 cgroup2 ${cgroupRoot} (in a container: run it with a writable cgroup namespace)`;
  return { kind: 'none', mount: null, reason: `no cgroup v2 is mounted: ${what}`, remedy };
}

/**
 * The directory to use when none is named: this process's own cgroup (the one above, when it already sits in
 * `supervisor`), or `djinnd` below a root cgroup, which is nobody's to fill with limits.
 */
export function defaultRoot(mount: string, procRoot: string): string {
  const own = join(mount, ownCgroup(procRoot) ?? '/');
  const path = basename(own) === 'supervisor' ? dirname(own) : own;
  if (!isCgroup2(path)) return join(mount, 'djinnd');
  // Only the machine's root cgroup has no cgroup.type; the root of a cgroup namespace has one.
  return isTop(path) ? join(mount, 'djinnd') : path;
}
