// A tenant's slice: the cgroup above all calls of one tenant, with the tenant's totals.
import { mkdirSync, rmdirSync } from 'node:fs';
import { join } from 'node:path';
import { errnoOf, LimitError } from './errors.ts';
import { isCgroup2 } from './files.ts';
import { applySettings, checkLimits, sliceSettings } from './limits.ts';
import { enableOnce, type Tree } from './tree.ts';
import type { Control, SliceLimits } from './types.ts';

const NAME = /^[A-Za-z0-9_-]{1,80}$/;

/** The name as a single path component; throws for anything that could be more. */
export function pathName(name: string): string {
  if (!NAME.test(name)) throw new TypeError(`not a cgroup name: ${JSON.stringify(name)}`);
  return name;
}

/** Which control is lost with a controller. */
export function controlOf(controller: string): Control | 'cgroup' {
  if (controller === 'memory' || controller === 'pids' || controller === 'cpu' || controller === 'io')
    return controller;
  return 'cgroup';
}

/**
 * Makes the tenant's slice, or takes the one that is there, and writes its totals anew; each is read back.
 * An absent total is lifted. Throws LimitError. `applied` maps each file to what the kernel holds.
 */
export async function createSlice(
  tree: Tree,
  tenantId: string,
  limits: SliceLimits,
): Promise<{ applied: Record<string, string> }> {
  checkLimits(limits);
  const applied = writeSlice(tree, tenantId, limits);
  tree.slices.set(tenantId, { ...limits });
  return { applied };
}

/** The slice's path, made again with its last limits when the end of another call has removed it meanwhile. */
export function requireSlice(tree: Tree, tenantId: string): string {
  const limits = tree.slices.get(tenantId);
  if (!limits)
    throw new LimitError('cgroup', join(tree.jobsPath, pathName(tenantId)), 'a slice', 'none was made');
  const path = join(tree.jobsPath, tenantId);
  if (!isCgroup2(path)) writeSlice(tree, tenantId, limits);
  return path;
}

function writeSlice(tree: Tree, tenantId: string, limits: SliceLimits): Record<string, string> {
  const path = join(tree.jobsPath, pathName(tenantId));
  makeGroup(path);
  const applied = applySettings(path, sliceSettings(limits, tree.controllers));
  enableAll(path, tree.controllers);
  return applied;
}

/** Makes one cgroup. An existing one is taken only where `exclusive` is not asked for. */
export function makeGroup(path: string, exclusive = false): void {
  try {
    mkdirSync(path, { mode: 0o755 });
  } catch (error) {
    const errno = errnoOf(error);
    if (errno === 'EEXIST' && !exclusive) return;
    throw new LimitError('cgroup', path, 'a new cgroup', errno);
  }
}

/** Hands every controller down to the children of a cgroup; throws LimitError when one is refused. */
export function enableAll(path: string, controllers: readonly string[]): void {
  for (const name of controllers) {
    const errno = enableOnce(path, name);
    if (errno === null) continue;
    throw new LimitError(controlOf(name), join(path, 'cgroup.subtree_control'), `+${name}`, errno);
  }
}

/** Removes the slice of a tenant whose last call has ended; keeps it when another call runs. */
export function dropEmptySlice(path: string): void {
  try {
    rmdirSync(path);
  } catch {
    // ENOTEMPTY or EBUSY: another call of the tenant is there. The slice goes with the last one, or at the next sweep.
  }
}
