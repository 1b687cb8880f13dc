// What a restarted spawner must know to close an attempt whose spawner died: one small root-only file beside the spool.
import { closeSync, constants, openSync, readFileSync, rmSync, writeSync } from 'node:fs';
import { syncData } from './disk.ts';
import type { AttemptRef } from './wire.ts';

export interface AttemptMeta extends AttemptRef {
  v: 1;
  lastAttempt: boolean;
  tenantId: string;
  sessionId: string;
  engine: string;
  startedAt: string;
  /** Levels of the controls that held the attempt. */
  enforcement: Record<string, string>;
}

/** Creates the file. Throws EEXIST when the attempt had one. `durable` resolves when it is on disk. */
export function writeMeta(path: string, meta: AttemptMeta): { durable: Promise<void> } {
  const fd = openSync(path, constants.O_WRONLY | constants.O_CREAT | constants.O_EXCL, 0o600);
  try {
    writeSync(fd, `${JSON.stringify(meta)}\n`);
  } catch (error) {
    closeSync(fd);
    rmSync(path, { force: true });
    throw error;
  }
  return { durable: syncData(fd).finally(() => closeSync(fd)) };
}

/** Null when the file is torn: then the attempt was never acknowledged. */
export function readMeta(path: string): AttemptMeta | null {
  const text = readFileSync(path, 'utf8');
  try {
    return text.endsWith('\n') ? (JSON.parse(text) as AttemptMeta) : null;
  } catch {
    return null;
  }
}

export function removeMeta(path: string): void {
  rmSync(path, { force: true });
}
