// The directories of one instance: makes them with their owners and modes, and removes what belongs to one run.
import { chmodSync, lstatSync, mkdirSync, rmdirSync, rmSync } from 'node:fs';
import { dirname, join } from 'node:path';
import type { Config } from '../config.ts';

/** Files and folders in the run directory that are remade at each start. */
const RUN_ENTRIES = ['spawner.sock', 'pg', 'pg-lib', 'pg_hba.conf', 'pg_ident.conf', 'cgroup'];

/** Where a parent puts its own parts below the configured directories. */
export const places = (config: Config) => ({
  app: join(config.runDir, 'app'),
  /** Only where the installation is not readable for the daemon's user. */
  appCopy: join(config.stateDir, 'app'),
  databaseHome: join(config.stateDir, 'postgres'),
  databaseSocket: join(config.runDir, 'pg'),
  cgroupMemo: join(config.runDir, 'cgroup'),
  spawnerSocket: join(config.runDir, 'spawner.sock'),
});

/**
 * Makes the state and run directories. Each must then be ours and no link: whoever could plant one in a shared
 * folder such as /tmp would otherwise own what the daemon trusts.
 */
export function makeDirectories(config: Config, uid: number): void {
  const root = uid === 0;
  for (const [dir, mode] of [
    [config.stateDir, root ? 0o711 : 0o700],
    [config.runDir, root ? 0o711 : 0o700],
    [config.jobsRunDir, root ? 0o711 : 0o700],
  ] as const) {
    mkdirSync(dirname(dir), { recursive: true });
    mkdirSync(dir, { recursive: true, mode });
    const stat = lstatSync(dir);
    if (!stat.isDirectory() || stat.uid !== uid) {
      throw new Error(
        `${dir} must be a directory that belongs to user ${uid}: move it away, or name another one`,
      );
    }
    chmodSync(dir, mode);
  }
}

/** Removes the sockets and files of this run; `lock` releases the run directory, then that goes too, if empty. */
export function removeRunFiles(config: Config, lock: { release(): void }): void {
  for (const name of RUN_ENTRIES) rmSync(join(config.runDir, name), { recursive: true, force: true });
  removeIfEmpty(config.jobsRunDir);
  lock.release();
  removeIfEmpty(config.runDir);
}

export function removeIfEmpty(dir: string): void {
  try {
    rmdirSync(dir);
  } catch {
    // Not empty (another's file) or gone already: both are left as they are.
  }
}
