// The directories of jobs and sessions: run directories and workspaces. Every parent is root's, and nothing below a
// directory that a tenant can write is ever opened, walked, changed or removed here.
import { chmodSync, chownSync, lchownSync, lstatSync, mkdirSync, rmdirSync, unlinkSync } from 'node:fs';
import { dirname, join } from 'node:path';
import type { Account } from './accounts.ts';

/** Names that are removed with a run directory; anything else in it stays and is reported. */
const RUN_FILES = ['gw/model.sock'];
const RUN_DIRECTORIES = ['fs', 'gw'];

/** Throws unless `path` and all above it belong to `owner` or root and nobody else can replace a name in them. */
export function checkParents(path: string, owner = 0): void {
  for (let at = path; ; at = dirname(at)) {
    const stat = lstatSync(at);
    if (!stat.isDirectory()) throw new Error(`${at} is not a directory`);
    if (stat.uid !== 0 && stat.uid !== owner) throw new Error(`${at} does not belong to root`);
    const sticky = (stat.mode & 0o1000) !== 0;
    if ((stat.mode & 0o022) !== 0 && !sticky) throw new Error(`${at} can be written by others than root`);
    if (at === dirname(at)) return;
  }
}

function makeDirectory(path: string, mode: number): boolean {
  try {
    mkdirSync(path, { mode });
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code !== 'EEXIST') throw error;
    if (!lstatSync(path).isDirectory()) throw new Error(`${path} is not a directory`);
    return false;
  }
  chmodSync(path, mode);
  return true;
}

export interface RunDirectory {
  runDir: string;
  /** Where djinnd listens for the job's model requests. */
  gatewayDir: string;
}

/**
 * Makes `<root>/<job>` (root, 0711) with `gw/` (djinnd's, group of the tenant, 2710: the tenant can reach the socket
 * by name and list nothing). Also used again for the next attempt of a job.
 */
export function makeRunDirectory(
  root: string,
  jobId: string,
  gateway: { uid: number; gid: number },
): RunDirectory {
  const runDir = join(root, jobId);
  const gatewayDir = join(runDir, 'gw');
  makeDirectory(runDir, 0o711);
  checkParents(runDir, process.geteuid?.());
  makeDirectory(join(runDir, 'fs'), 0o711);
  if (makeDirectory(gatewayDir, 0o700)) {
    if (process.geteuid?.() === 0) chownSync(gatewayDir, gateway.uid, gateway.gid);
    chmodSync(gatewayDir, 0o2710);
  }
  return { runDir, gatewayDir };
}

/** Removes a run directory by its known names. Answers the paths that could not be removed. */
export function removeRunDirectory(runDir: string): string[] {
  const left: string[] = [];
  const remove = (path: string, how: (path: string) => void): void => {
    try {
      how(path);
    } catch (error) {
      if ((error as NodeJS.ErrnoException).code !== 'ENOENT') left.push(path);
    }
  };
  for (const name of RUN_FILES) remove(join(runDir, name), unlinkSync);
  for (const name of RUN_DIRECTORIES) remove(join(runDir, name), rmdirSync);
  remove(runDir, rmdirSync);
  return left;
}

export interface Workspace {
  path: string;
  state: 'existing' | 'new';
}

/**
 * Makes or finds the session's workspace: `<root>/<tenant>` is root's 0711, the leaf the tenant's 0700. The leaf is
 * root's until it is given away, so the tenant cannot be in it while it is made. Throws when the leaf is another's.
 */
export function makeWorkspace(
  root: string,
  ids: { tenantId: string; sessionId: string },
  account: Account,
): Workspace {
  const parent = join(root, ids.tenantId);
  makeDirectory(parent, 0o711);
  checkParents(parent, process.geteuid?.());
  const path = join(parent, ids.sessionId);
  const isNew = makeDirectory(path, 0o700);
  if (isNew && process.geteuid?.() === 0) lchownSync(path, account.uid, account.gid);
  const stat = lstatSync(path);
  if (isNew || stat.uid === account.uid) {
    if ((stat.mode & 0o7777) !== 0o700) chmodSync(path, 0o700); // a name in root's directory: nobody can swap it
    return { path, state: isNew ? 'new' : 'existing' };
  }
  throw new Error(`${path} belongs to uid ${stat.uid}, not to its tenant`);
}
