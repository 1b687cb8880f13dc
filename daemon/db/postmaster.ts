// A postmaster left by an owner that was killed: found by its pid file, believed only if the kernel agrees, stopped.
import { closeSync, constants, openSync, readFileSync, readlinkSync, statSync } from 'node:fs';
import { basename, join } from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';

/**
 * The pid of the postmaster that runs on `dataDir`, or null. The file's word alone is not enough to signal anything:
 * the process must be a `postgres` with that working directory, owned by `uid`, so that neither a reused pid nor a
 * forged file reaches another process.
 */
export function runningPostmaster(dataDir: string, uid: number): number | null {
  const pid = Number(/^(\d{1,10})\n/.exec(readPidFile(dataDir))?.[1]);
  if (!Number.isSafeInteger(pid) || pid <= 1) return null;
  try {
    if (statSync(`/proc/${pid}`).uid !== uid) return null;
    if (readlinkSync(`/proc/${pid}/cwd`) !== dataDir) return null;
    const program = basename(readFileSync(`/proc/${pid}/cmdline`, 'utf8').split('\0')[0] ?? '');
    return program === 'postgres' ? pid : null;
  } catch {
    return null; // the process is gone
  }
}

/** Stops a postmaster that is not our child: fast shutdown, then immediate, then KILL. True when it is gone. */
export async function stopPostmaster(dataDir: string, uid: number): Promise<boolean> {
  for (const [signal, waitMs] of [
    ['SIGINT', 20_000],
    ['SIGQUIT', 5_000],
    ['SIGKILL', 5_000],
  ] as const) {
    const pid = runningPostmaster(dataDir, uid);
    if (pid === null) return true;
    process.kill(pid, signal);
    for (let waited = 0; waited < waitMs; waited += 20) {
      await sleep(20);
      if (runningPostmaster(dataDir, uid) === null) return true;
    }
  }
  return runningPostmaster(dataDir, uid) === null;
}

function readPidFile(dataDir: string): string {
  try {
    const fd = openSync(
      join(dataDir, 'postmaster.pid'),
      constants.O_RDONLY | constants.O_NOFOLLOW | constants.O_NONBLOCK,
    );
    try {
      return readFileSync(fd, 'utf8').slice(0, 4096);
    } finally {
      closeSync(fd);
    }
  } catch {
    return ''; // no file: nothing runs
  }
}
