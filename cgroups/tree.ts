// The delegated directory: `supervisor` holds the processes that were in it, `jobs` every call. Writes nothing
// above it, except the controllers of a root cgroup that no init system looks after.
import { existsSync, mkdirSync, rmdirSync } from 'node:fs';
import { dirname, join } from 'node:path';
import { errnoOf, TreeError } from './errors.ts';
import { isCgroup2, readOptional, readPids, readValue, readWords, writeValue } from './files.ts';
import { pause } from './pause.ts';
import type { SliceLimits } from './types.ts';

/** Times that a transient EBUSY is waited out, 1 ms each, after processes were moved away. */
const BUSY_TRIES = 1000;

/** Names of the short-lived cgroups that the probe makes in the delegated directory. */
export const PROBE_PREFIX = 'probe-';

export interface Tree {
  /** The delegated directory. */
  path: string;
  jobsPath: string;
  supervisorPath: string;
  /** Controllers that are enabled for `jobs` and so for every slice. */
  controllers: string[];
  /** Limits that each tenant's slice was last given. */
  slices: Map<string, SliceLimits>;
  /** Where this process was before, when it entered from outside: closeTree puts it back there. */
  origin: string | null;
  /** True when openTree made the directory; closeTree then removes it. */
  created: boolean;
}

/**
 * Takes a delegated directory into use: makes it when only its parent exists, moves this process and every
 * other one in it to `supervisor` (a cgroup with controllers may hold no processes), and enables those of the
 * wanted controllers that it offers. `tree.controllers` says which. Throws TreeError.
 */
export async function openTree(options: {
  root: string;
  controllers: string[];
  procRoot?: string;
}): Promise<Tree> {
  const path = options.root;
  const procRoot = options.procRoot ?? '/proc';
  const created = ensureRoot(path, options.controllers, procRoot);
  const jobsPath = join(path, 'jobs');
  const origin = originOf(path, procRoot);
  try {
    const supervisorPath = await claimRoot(path);
    const offered = readWords(join(path, 'cgroup.controllers'));
    const wanted = options.controllers.filter((name) => offered.includes(name));
    await enableControllers(path, wanted);
    makeDirectory(jobsPath);
    await enableControllers(jobsPath, wanted);
    return { path, jobsPath, supervisorPath, controllers: wanted, slices: new Map(), origin, created };
  } catch (error) {
    if (origin !== null) moveProcess(process.pid, origin);
    throw error;
  }
}

/**
 * Gives the directory back: processes that came from outside return to where they were, empty cgroups are
 * removed. Calls that still run are left alone, and then the directory stays. True when nothing is left of it.
 */
export async function closeTree(tree: Tree): Promise<boolean> {
  if (tree.origin === null || !tree.created) return false;
  for (const pid of readPids(tree.supervisorPath)) moveProcess(pid, tree.origin);
  let gone = false;
  for (let wait = 1; wait <= 256 && !gone; wait *= 2) {
    for (const dir of [tree.jobsPath, tree.supervisorPath, tree.path]) gone = removeEmpty(dir);
    if (!gone) await pause(wait);
  }
  return gone;
}

function removeEmpty(dir: string): boolean {
  try {
    rmdirSync(dir);
    return true;
  } catch (error) {
    return errnoOf(error) === 'ENOENT';
  }
}

/** Makes the directory when only its parent exists. Returns whether it did. */
export function ensureRoot(path: string, controllers: readonly string[], procRoot: string): boolean {
  if (isCgroup2(path)) return false;
  const parent = dirname(path);
  if (!isCgroup2(parent)) throw new TreeError('not_cgroup2', path, null, 'is not on a cgroup v2 file system');
  makeDirectory(path);
  // Only a root cgroup has no cgroup.type. Under systemd it is systemd's alone to write.
  const unmanaged = isTop(parent) && readOptional(join(procRoot, '1/comm')) !== 'systemd';
  if (unmanaged) {
    const offered = readWords(join(parent, 'cgroup.controllers'));
    for (const name of controllers) if (offered.includes(name)) enableOnce(parent, name);
  }
  return true;
}

function makeDirectory(path: string): void {
  try {
    mkdirSync(path, { mode: 0o755 });
  } catch (error) {
    const errno = errnoOf(error);
    if (errno !== 'EEXIST') throw new TreeError('not_created', path, errno, 'cannot be made');
  }
}

/** The cgroup of this process, when that lies outside the tree and can be found on the same mount. */
function originOf(path: string, procRoot: string): string | null {
  const own = ownCgroup(procRoot);
  if (own === null) return null;
  let mount = path;
  while (isCgroup2(dirname(mount)) && dirname(mount) !== mount) mount = dirname(mount);
  const origin = join(mount, own);
  if (origin === path || origin.startsWith(`${path}/`) || !isCgroup2(origin)) return null;
  return origin;
}

/** The path of this process in the v2 hierarchy, from the `0::` line of /proc/self/cgroup. */
export function ownCgroup(procRoot: string): string | null {
  const text = readOptional(join(procRoot, 'self/cgroup')) ?? '';
  return /^0::(\/.*)$/m.exec(text)?.[1] ?? null;
}

/** Moves this process and every process of the delegated directory into its `supervisor` leaf, and returns that. */
export async function claimRoot(path: string): Promise<string> {
  const supervisorPath = join(path, 'supervisor');
  makeDirectory(supervisorPath);
  const refused = moveProcess(process.pid, supervisorPath);
  if (refused !== null) throw new TreeError('not_entered', supervisorPath, refused, 'cannot be entered');
  // Processes fork while they are moved: look again until none is left.
  for (let round = 0; round < 50; round++) {
    const pids = readPids(path);
    if (pids.length === 0) return supervisorPath;
    for (const pid of pids) moveProcess(pid, supervisorPath);
    await pause(1);
  }
  return supervisorPath;
}

/** Returns the errno of a refused move, or null. A process that has ended in the meantime is moved enough. */
function moveProcess(pid: number, dir: string): string | null {
  try {
    writeValue(join(dir, 'cgroup.procs'), String(pid));
    return null;
  } catch (error) {
    const errno = errnoOf(error);
    return errno === 'ESRCH' ? null : errno;
  }
}

/** Enables controllers for the children of a cgroup. A transient EBUSY is waited out (seen by crun, too). */
async function enableControllers(dir: string, names: readonly string[]): Promise<void> {
  for (const name of names) {
    let errno = enableOnce(dir, name);
    for (let n = 0; errno === 'EBUSY' && n < BUSY_TRIES && readPids(dir).length === 0; n++) {
      await pause(1);
      errno = enableOnce(dir, name);
    }
    if (errno !== null)
      throw new TreeError('not_enabled', dir, errno, `controller ${name} cannot be enabled`);
  }
}

/**
 * One attempt to enable a controller for a cgroup's children: null when it is enabled (read back), else the errno.
 * Never tried while the cgroup holds processes: for pids and cpu the kernel would not refuse it, but make the
 * cgroup threaded, and no process could enter the children any more (ENOTSUP).
 */
export function enableOnce(dir: string, name: string): string | null {
  const file = join(dir, 'cgroup.subtree_control');
  try {
    if (readValue(file).split(' ').includes(name)) return null;
    if (!isTop(dir) && readPids(dir).length > 0) return 'EBUSY';
    writeValue(file, `+${name}`);
    return readValue(file).split(' ').includes(name) ? null : 'not enabled';
  } catch (error) {
    return errnoOf(error);
  }
}

/** Whether this is the machine's root cgroup, which may hold processes and has no cgroup.type. */
export function isTop(dir: string): boolean {
  return !existsSync(join(dir, 'cgroup.type'));
}
