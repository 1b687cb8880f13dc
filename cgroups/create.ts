// Makes the cgroups of one call, with every limit in place before any process enters. Leaves nothing on failure.
import { chownSync, existsSync, rmdirSync } from 'node:fs';
import { join } from 'node:path';
import { errnoOf, LimitError } from './errors.ts';
import { readOptional, writeValue } from './files.ts';
import { applySetting, applySettings, callSettings, checkLimits, toolsSettings } from './limits.ts';
import { type Counters, openCounters } from './observe.ts';
import { dropEmptySlice, enableAll, makeGroup, pathName, requireSlice } from './slice.ts';
import type { Tree } from './tree.ts';
import type { CallLimits, Control, Level } from './types.ts';

/** The cgroups of one call: `agent` holds the sandbox and the worker, `tools` what the worker starts. */
export interface CallGroup {
  path: string;
  slicePath: string;
  agentPath: string;
  toolsPath: string;
  /** Written to (`0`) by the launcher before exec. */
  agentProcs: string;
  /** The tenant's: the worker's tools enter here by themselves. */
  toolsProcs: string;
  /** memory.events of the tools leaf; where the kernel has none, its cgroup.events. */
  toolsEvents: string;
  enforced: Record<Control, Level>;
  /** What the kernel held after the writes, by file. */
  applied: Record<string, string>;
  /** Open descriptors of the counters; closed by removeCall. */
  counters: Counters;
}

/**
 * Makes `jobs/<tenant>/<job>` with the leaves `agent` and `tools` and writes every limit that the tree has a
 * controller for, each read back. Only cgroup.procs of the call and of `tools` become the owner's, which lets a
 * process of the call move from one leaf to the other and nothing else. Throws LimitError; then nothing is left.
 */
export async function createCall(
  tree: Tree,
  tenantId: string,
  jobId: string,
  limits: CallLimits,
  owner: { uid: number; gid: number },
): Promise<CallGroup> {
  checkLimits(limits);
  const slicePath = requireSlice(tree, tenantId);
  const path = join(slicePath, pathName(jobId));
  const agentPath = join(path, 'agent');
  const toolsPath = join(path, 'tools');
  makeGroup(path, true);
  try {
    const applied = applySettings(path, callSettings(limits, tree.controllers));
    enableAll(path, tree.controllers);
    makeLeaf(path, agentPath);
    makeLeaf(path, toolsPath);
    const tools = applySettings(toolsPath, toolsSettings(limits, tree.controllers));
    for (const [file, value] of Object.entries(tools)) applied[`tools/${file}`] = value;
    applySetting(path, { control: 'cgroup', file: 'cgroup.max.descendants', value: '2' });
    giveProcs(path, owner);
    giveProcs(toolsPath, owner);
    writeIoWeight(path, limits.cpuWeight);
    const hasMemoryEvents = existsSync(join(toolsPath, 'memory.events'));
    return {
      path,
      slicePath,
      agentPath,
      toolsPath,
      agentProcs: join(agentPath, 'cgroup.procs'),
      toolsProcs: join(toolsPath, 'cgroup.procs'),
      toolsEvents: join(toolsPath, hasMemoryEvents ? 'memory.events' : 'cgroup.events'),
      enforced: enforcedBy(path, tree.controllers),
      applied,
      counters: openCounters(path, agentPath, toolsPath),
    };
  } catch (error) {
    for (const dir of [agentPath, toolsPath, path]) discard(dir);
    dropEmptySlice(slicePath);
    throw error;
  }
}

/** A leaf in which nobody can make another cgroup. */
function makeLeaf(path: string, leaf: string): void {
  makeGroup(leaf, true);
  applySetting(leaf, { control: 'cgroup', file: 'cgroup.max.descendants', value: '0' });
  if (readOptional(join(path, 'cgroup.type')) !== 'domain') {
    throw new LimitError(
      'cgroup',
      join(path, 'cgroup.type'),
      'domain',
      readOptional(join(path, 'cgroup.type')) ?? 'none',
    );
  }
}

function giveProcs(dir: string, owner: { uid: number; gid: number }): void {
  const file = join(dir, 'cgroup.procs');
  // Without root everything is one user's already.
  if (process.geteuid?.() === owner.uid) return;
  try {
    chownSync(file, owner.uid, owner.gid);
  } catch (error) {
    throw new LimitError('tool-oom', file, `owner ${owner.uid}:${owner.gid}`, errnoOf(error));
  }
}

/** Best effort: io.weight exists only with BFQ or the io cost model, and is reported as partial at most. */
function writeIoWeight(dir: string, weight: number | undefined): void {
  if (weight === undefined) return;
  try {
    writeValue(join(dir, 'io.weight'), `default ${weight}`);
  } catch {
    // Not offered here; enforced.io says partial or none either way.
  }
}

function enforcedBy(path: string, controllers: readonly string[]): Record<Control, Level> {
  const level = (name: string): Level => (controllers.includes(name) ? 'full' : 'none');
  const offers = (file: string): boolean => existsSync(join(path, file));
  const freeze: Level = offers('cgroup.freeze') ? 'full' : 'none';
  return {
    memory: level('memory'),
    swap: level('memory'),
    pids: level('pids'),
    cpu: level('cpu'),
    io: controllers.includes('io') ? 'partial' : 'none',
    kill: offers('cgroup.kill') ? 'full' : freeze === 'full' ? 'partial' : 'none',
    freeze,
    events: 'full',
    'tool-oom': level('memory'),
  };
}

/** Undoes a creation that failed; no process can be in it yet. */
function discard(dir: string): void {
  try {
    rmdirSync(dir);
  } catch {
    // Not made yet, or left to the next sweep: the error that brought us here is the one to report.
  }
}
