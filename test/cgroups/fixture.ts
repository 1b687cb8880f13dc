// A tree of its own for each test, on whatever cgroup2 this machine has, and the proof that nothing is left of it.
import assert from 'node:assert/strict';
import { type ChildProcess, spawn } from 'node:child_process';
import { existsSync } from 'node:fs';
import { join } from 'node:path';
import type { TestContext } from 'node:test';
import { isCgroup2 } from '../../cgroups/files.ts';
import {
  type CallGroup,
  type CallLimits,
  closeTree,
  createCall,
  createSlice,
  openTree,
  sweepTree,
  type Tree,
} from '../../cgroups/index.ts';
import { timeScale } from '../vm/guest.ts';

export const MIB = 1024 * 1024;
export const CONTROLLERS = ['memory', 'pids', 'cpu', 'io'];
export const NOBODY = { uid: 65534, gid: 65534 };
export const LIMITS: CallLimits = { memoryBytes: 256 * MIB, pids: 64, cpuPercent: 100 };

/** Where cgroup2 is mounted here, or null. */
export const mount = ['/sys/fs/cgroup', '/sys/fs/cgroup/unified'].find(isCgroup2) ?? null;

/** `skip` option: false where a cgroup can be made. */
export const needsCgroup2: string | false =
  mount !== null && process.geteuid?.() === 0 ? false : 'needs a cgroup v2 mount and root';

let made = 0;

/** A fresh path for a delegated directory. */
export function freshRoot(): string {
  made += 1;
  return join(mount ?? '', `djinnd-test-${process.pid}-${made}`);
}

/** Opens a tree that is swept and closed after the test, which fails when anything of it stays. */
export async function testTree(t: TestContext, root = freshRoot()): Promise<Tree> {
  const tree = await openTree({ root, controllers: CONTROLLERS });
  t.after(async () => {
    const { leaked } = await sweepTree(tree);
    assert.deepEqual(leaked, []);
    assert.equal(await closeTree(tree), true, 'the tree is empty after the test');
    assert.equal(existsSync(root), false);
  });
  return tree;
}

/** A call in a fresh tree. */
export async function testCall(
  t: TestContext,
  limits: Partial<CallLimits> = {},
): Promise<{ tree: Tree; call: CallGroup }> {
  const tree = await testTree(t);
  await createSlice(tree, 'tenant', {});
  const call = await createCall(tree, 'tenant', 'job_1', { ...LIMITS, ...limits }, NOBODY);
  return { tree, call };
}

export interface Run {
  child: ChildProcess;
  /** What it printed, both streams. */
  output: () => string;
  ended: Promise<{ code: number | null; signal: string | null; output: string }>;
}

/**
 * What the scripts of tests can call: `eat MIB [SECONDS]` holds so much memory, `tool COMMAND…` runs one in the
 * tools leaf, as the worker does, and `tenant FUNCTION…` goes on as a user without any right.
 */
const PRELUDE = `
eat() { exec perl -e '$x = "a" x ($ARGV[0] * 1048576); print "ate\\n"; sleep($ARGV[1] // 0)' "$@"; }
tool() { (echo 0 > "$TOOLS" && "$@"); }
tenant() { exec setpriv --reuid 65534 --regid 65534 --clear-groups bash -c '"$@"' bash "$@"; }
echo 0 > "$PROCS" || exit 99
`;

/** Starts a bash script that enters the leaf before anything else. */
export function runIn(call: CallGroup, script: string, leaf: 'agent' | 'tools' = 'agent'): Run {
  const procs = leaf === 'agent' ? call.agentProcs : call.toolsProcs;
  const child = spawn('bash', ['-c', `set -a; ${PRELUDE}${script}`], {
    env: { PATH: process.env.PATH ?? '', PROCS: procs, TOOLS: call.toolsProcs },
    stdio: ['ignore', 'pipe', 'pipe'],
  });
  let output = '';
  child.stdout.on('data', (chunk) => (output += chunk));
  child.stderr.on('data', (chunk) => (output += chunk));
  const ended = new Promise<Awaited<Run['ended']>>((resolve, reject) => {
    child.on('error', reject);
    // Not `close`: a process left behind may hold the pipes. What was written before the exit is read by then.
    child.on('exit', (code, signal) => setTimeout(() => resolve({ code, signal, output }), 20));
  });
  return { child, output: () => output, ended };
}

/** Waits until the check holds; fails after 5 s (50 s in the guest). */
export async function until(what: string, check: () => boolean): Promise<void> {
  const end = Date.now() + 5000 * timeScale;
  while (!check()) {
    assert.ok(Date.now() < end, `in time: ${what}`);
    await new Promise((resolve) => setTimeout(resolve, 10));
  }
}
