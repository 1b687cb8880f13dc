// Clears what a dead predecessor left in the tree. Only at start, when no call of this process exists.
import { join } from 'node:path';
import { childNames } from './files.ts';
import { killTree, pidsBelow } from './kill.ts';
import { removeTree } from './remove.ts';
import { PROBE_PREFIX, type Tree } from './tree.ts';

/**
 * Kills every process below `jobs` and removes every slice, and probe cgroups that were left. `killed` counts
 * processes, `removed` slices and probes, `leaked` names what could not be removed.
 */
export async function sweepTree(tree: Tree): Promise<{ killed: number; removed: number; leaked: string[] }> {
  const killed = pidsBelow(tree.jobsPath).length;
  const probes = childNames(tree.path).filter((name) => name.startsWith(PROBE_PREFIX));
  const left = [
    ...childNames(tree.jobsPath).map((name) => join(tree.jobsPath, name)),
    ...probes.map((name) => join(tree.path, name)),
  ];
  // All first, then one after the other: what waits for removal is dead already.
  for (const path of left) killTree(path);
  let removed = 0;
  const leaked: string[] = [];
  for (const path of left) {
    const result = await removeTree(path);
    if (result.removed) removed += 1;
    else leaked.push(path);
  }
  tree.slices.clear();
  return { killed, removed, leaked };
}
