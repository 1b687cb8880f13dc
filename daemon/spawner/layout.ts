// Where the spawner's files lie, and the directories for spools and session records. Knows no tenant's directory.
import { chmodSync, chownSync, lstatSync, mkdirSync } from 'node:fs';
import { join } from 'node:path';
import { errnoOf } from './disk.ts';
import type { AttemptRef } from './wire.ts';

export interface Layout {
  stateDir: string;
  runDir: string;
  jobsRunDir: string;
  /** Who djinnd runs as: may read spools and session records. */
  daemonUser: { uid: number; gid: number };
  /** False: one user for all, nothing can be given away. */
  privileged: boolean;
}

export const socketPath = ({ runDir }: Layout): string => join(runDir, 'spawner.sock');
export const spoolDir = ({ stateDir }: Layout, jobId: string): string => join(stateDir, 'jobs', jobId);
export const spoolPath = (layout: Layout, { jobId, attempt }: AttemptRef): string =>
  join(spoolDir(layout, jobId), `${attempt}.ndjson`);
export const metaPath = (layout: Layout, { jobId, attempt }: AttemptRef): string =>
  join(spoolDir(layout, jobId), `${attempt}.meta.json`);
export const sessionPath = ({ stateDir }: Layout, tenantId: string, sessionId: string): string =>
  join(stateDir, 'sessions', tenantId, `${sessionId}.jsonl`);
export const workspacesDir = ({ stateDir }: Layout): string => join(stateDir, 'workspaces');

/** Group of files that djinnd reads; null where nothing can be given away. */
export const readersGid = ({ privileged, daemonUser }: Layout): number | null =>
  privileged ? daemonUser.gid : null;

/** Makes one directory with exactly this mode and owner; one that is there is left as it is. */
function makeDir(path: string, mode: number, owner: { uid: number; gid: number } | null): void {
  try {
    mkdirSync(path, { mode: 0o700 });
  } catch (error) {
    if (errnoOf(error) !== 'EEXIST') throw error;
    if (!lstatSync(path).isDirectory()) throw new Error(`${path} is not a directory`);
    return;
  }
  if (owner !== null) chownSync(path, owner.uid, owner.gid);
  chmodSync(path, mode);
}

const readable = (layout: Layout) => (layout.privileged ? { uid: 0, gid: layout.daemonUser.gid } : null);

/** Makes the fixed directories at start. */
export function makeBaseDirs(layout: Layout): void {
  const { stateDir, runDir, jobsRunDir } = layout;
  for (const path of [stateDir, runDir, jobsRunDir]) mkdirSync(path, { recursive: true });
  if (layout.privileged) chmodSync(stateDir, 0o711);
  if (layout.privileged) chmodSync(jobsRunDir, 0o711);
  makeDir(join(stateDir, 'jobs'), 0o750, readable(layout));
  makeDir(join(stateDir, 'sessions'), 0o750, readable(layout));
  makeDir(workspacesDir(layout), 0o711, layout.privileged ? { uid: 0, gid: 0 } : null);
}

/** Makes the directory of the job's spools. */
export function makeSpoolDir(layout: Layout, jobId: string): void {
  makeDir(spoolDir(layout, jobId), 0o750, readable(layout));
}

/** Makes the directory of the tenant's session records. */
export function makeSessionDir(layout: Layout, tenantId: string): void {
  makeDir(join(layout.stateDir, 'sessions', tenantId), 0o750, readable(layout));
}
