// Removes cgroups, children first, with rmdir alone: never a recursive delete, which would try to unlink
// the kernel's interface files.
import { rmdirSync } from 'node:fs';
import { join } from 'node:path';
import type { CallGroup } from './create.ts';
import { errnoOf } from './errors.ts';
import { childNames } from './files.ts';
import { killTree } from './kill.ts';
import { closeCounters } from './observe.ts';
import { pause } from './pause.ts';
import { dropEmptySlice } from './slice.ts';

/** Waits of 1, 2, 4 … 1024 ms: about 2 s together. rmdir right after a kill is EBUSY; 68 ms were seen. */
const MAX_TRIES = 12;

/**
 * Removes an ended call with whatever was made below it, and the tenant's slice with its last call. Kills again
 * whenever the kernel says that it is busy. `removed: false` means that it leaked: report it and sweep later.
 */
export async function removeCall(call: CallGroup): Promise<{ removed: boolean; tries: number }> {
  closeCounters(call.counters);
  const result = await removeTree(call.path);
  if (result.removed) dropEmptySlice(call.slicePath);
  return result;
}

/** As removeCall, for any cgroup of the tree. One that is gone counts as removed. */
export async function removeTree(path: string): Promise<{ removed: boolean; tries: number }> {
  for (let tries = 1; ; tries++) {
    if (removeOnce(path)) return { removed: true, tries };
    if (tries === MAX_TRIES) return { removed: false, tries };
    killTree(path);
    await pause(2 ** (tries - 1));
  }
}

/** One pass, depth first. False when something is still in use (EBUSY) or was made meanwhile (ENOTEMPTY). */
function removeOnce(path: string): boolean {
  for (const name of childNames(path)) {
    if (!removeOnce(join(path, name))) return false;
  }
  try {
    rmdirSync(path);
    return true;
  } catch (error) {
    const errno = errnoOf(error);
    if (errno === 'ENOENT') return true;
    if (errno === 'EBUSY' || errno === 'ENOTEMPTY') return false;
    throw error;
  }
}
