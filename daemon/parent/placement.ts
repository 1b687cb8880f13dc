// Where the spawner's cgroup tree goes when no unit gives it one, and how the machine is left as it was found.
import { mkdirSync, readFileSync, rmdirSync, rmSync, writeFileSync } from 'node:fs';
import { basename, dirname, join } from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';
import type { Logger } from 'pino';
import { isCgroup2, readPids, readWords, writeValue } from '../../cgroups/files.ts';
import { killTree } from '../../cgroups/kill.ts';
import { removeTree } from '../../cgroups/remove.ts';
import { enableOnce, ownCgroup } from '../../cgroups/tree.ts';

const CONTROLLERS = ['memory', 'pids', 'cpu', 'io'];

export interface Placement {
  /** The directory for the spawner alone; its parent hands down every controller there is. Null: there is no cgroup2. */
  root: string | null;
  /** Kills and removes the tree, and undoes what was changed above it. */
  close(): Promise<void>;
}

/**
 * Chooses the directory: below the own cgroup of a unified (or the cgroup2 mount of a hybrid) machine. A cgroup that
 * hands controllers down may hold no process, so those in the own one, this included, wait in a leaf beside the tree;
 * only a root cgroup may keep them. `memoFile` remembers the place for a parent that comes after a killed one.
 */
export async function placeTree(options: {
  instance: string;
  memoFile: string;
  log: Logger;
}): Promise<Placement> {
  const none: Placement = { root: null, close: () => Promise.resolve() };
  const base = ownDirectory();
  if (base === null) return none;
  const name = options.instance === '' ? 'djinnd' : `djinnd-${options.instance}`;
  await removeLeftover(options.memoFile, name);
  const root = join(base, name);
  const isRoot = !isCgroup2(dirname(base));
  const leaf = isRoot ? null : join(base, `${name}-parent`);
  try {
    await removeAll(root);
    if (leaf !== null) await moveProcesses(base, leaf);
    mkdirSync(root);
  } catch (error) {
    options.log.info({ reason: (error as Error).message }, 'no cgroup can be made here');
    return none;
  }
  const enabled = enableControllers(base);
  writeFileSync(options.memoFile, root, { mode: 0o600 });
  return {
    root,
    close: async () => {
      await removeAll(root);
      for (const controller of enabled)
        attempt(() => writeValue(join(base, 'cgroup.subtree_control'), `-${controller}`));
      if (leaf !== null) await moveProcesses(leaf, base).then(() => attempt(() => rmdirSync(leaf)));
      rmSync(options.memoFile, { force: true });
    },
  };
}

/** Kills whatever is left of the spawner's tree: nothing of a dead spawner's jobs may go on. */
export function killPlacedTree(root: string): void {
  if (isCgroup2(root)) killTree(root);
}

/** The own cgroup on the cgroup2 mount, unified or hybrid. */
function ownDirectory(): string | null {
  const own = ownCgroup('/proc');
  const mount = ['/sys/fs/cgroup', '/sys/fs/cgroup/unified', ...mounted()].find(isCgroup2);
  if (own === null || mount === undefined) return null;
  const dir = join(mount, own);
  return isCgroup2(dir) ? dir : null;
}

function mounted(): string[] {
  return readFileSync('/proc/self/mounts', 'utf8')
    .split('\n')
    .map((line) => line.split(' '))
    .filter((fields) => fields[2] === 'cgroup2')
    .map((fields) => fields[1] ?? '');
}

async function removeLeftover(memoFile: string, name: string): Promise<void> {
  let path: string;
  try {
    path = readFileSync(memoFile, 'utf8');
  } catch {
    return; // the last parent cleared up
  }
  if (basename(path) !== name) return;
  await removeAll(path);
  attempt(() => rmdirSync(`${path}-parent`));
}

async function removeAll(root: string): Promise<void> {
  if (!isCgroup2(root)) return;
  killTree(root);
  const { removed } = await removeTree(root);
  if (!removed) throw new Error(`the cgroup ${root} cannot be removed`);
}

/** Moves every process of one cgroup to another; looks again until none is left, for they fork meanwhile. */
async function moveProcesses(from: string, to: string): Promise<void> {
  if (!isCgroup2(to)) mkdirSync(to);
  for (let round = 0; round < 100; round++) {
    const pids = readPids(from);
    if (pids.length === 0) return;
    for (const pid of pids) attempt(() => writeValue(join(to, 'cgroup.procs'), String(pid)));
    await sleep(2);
  }
}

/** Returns the controllers that were not handed down before. */
function enableControllers(base: string): string[] {
  const before = readWords(join(base, 'cgroup.subtree_control'));
  const wanted = readWords(join(base, 'cgroup.controllers')).filter(
    (one) => CONTROLLERS.includes(one) && !before.includes(one),
  );
  return wanted.filter((one) => enableOnce(base, one) === null);
}

/** For steps that may be refused without harm: what they were for is probed afterwards, and said. */
function attempt(step: () => void): boolean {
  try {
    step();
    return true;
  } catch {
    return false;
  }
}
