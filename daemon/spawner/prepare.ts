// Makes everything on disk that an accepted attempt needs. On failure nothing of it is left.
import { existsSync, rmSync } from 'node:fs';
import type { Account } from './accounts.ts';
import { syncDirectory } from './disk.ts';
import type { EngineDefinition } from './engines.ts';
import { makeRunDirectory, makeWorkspace, removeRunDirectory } from './job-directories.ts';
import {
  type Layout,
  makeSessionDir,
  makeSpoolDir,
  metaPath,
  readersGid,
  sessionPath,
  spoolDir,
  spoolPath,
  workspacesDir,
} from './layout.ts';
import { writeMeta } from './meta.ts';
import { openSessionFile, type SessionFile } from './records.ts';
import { createSpool } from './spool.ts';
import type { StartParams } from './wire.ts';
import type { Order } from './world.ts';

export interface Prepared {
  order: Order;
  /** Resolves when a crash of the machine could not lose the attempt. */
  durable: Promise<void>;
}

/** Whether the attempt has been accepted before, in this life or an earlier one. */
export function isOnDisk(layout: Layout, ref: { jobId: string; attempt: number }): boolean {
  return existsSync(spoolPath(layout, ref)) || existsSync(metaPath(layout, ref));
}

export async function prepareAttempt(
  layout: Layout,
  { payload, ...params }: StartParams,
  parts: {
    account: Account;
    engine: EngineDefinition;
    levels: Readonly<Record<string, string>>;
    onRetry: (errno: string) => void;
  },
): Promise<Prepared> {
  const { jobId, attempt, lastAttempt, tenantId, sessionId, engine } = params;
  const { account } = parts;
  const startedAt = new Date().toISOString();
  const workspace = makeWorkspace(workspacesDir(layout), { tenantId, sessionId }, account);
  const gateway = { uid: layout.daemonUser.uid, gid: account.gid };
  const run = makeRunDirectory(layout.jobsRunDir, jobId, gateway);
  const meta = metaPath(layout, params);
  const spoolFile = spoolPath(layout, params);
  let session: SessionFile | null = null;
  try {
    makeSessionDir(layout, tenantId);
    session = openSessionFile(sessionPath(layout, tenantId, sessionId), readersGid(layout));
    makeSpoolDir(layout, jobId);
    // The meta file first: a spool without one would have nobody to close it.
    const { durable } = writeMeta(meta, {
      ...{ v: 1, jobId, attempt, lastAttempt, tenantId, sessionId, engine, startedAt },
      enforcement: { ...parts.levels },
    });
    const spool = createSpool({ path: spoolFile, gid: readersGid(layout), onRetry: parts.onRetry });
    const order: Order = {
      ...{ params, payload, account, engine: parts.engine, session, spool, startedAt },
      ...{ runDir: run.runDir, gatewayDir: run.gatewayDir },
      ...{ workspaceDir: workspace.path, workspace: workspace.state },
      sessionPath: sessionPath(layout, tenantId, sessionId),
    };
    const entries = [spoolDir(layout, jobId), `${layout.stateDir}/jobs`].map(syncDirectory);
    return { order, durable: Promise.all([durable, ...entries]).then(() => {}) };
  } catch (error) {
    session?.close();
    rmSync(meta, { force: true });
    await removeRunDirectory(run.runDir);
    throw error;
  }
}
