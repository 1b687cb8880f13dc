// A postmaster left by an owner that was killed: found by its pid file, believed only if the kernel agrees, stopped. Touches no file.
import { closeSync, constants, openSync, readdirSync, readFileSync, readlinkSync, statSync } from 'node:fs';
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

/**
 * Clears the way for a new server: stops a postmaster that is not our child (fast shutdown, then immediate, then KILL)
 * and waits for the last process on the directory. Only then is a pid file that is still there a dead one's, whatever
 * process has its number now. Throws when something goes on running.
 */
export async function clearLeftover(dataDir: string, uid: number): Promise<void> {
  const pid = runningPostmaster(dataDir, uid);
  for (const [signal, waitMs] of [
    ['SIGINT', 20_000],
    ['SIGQUIT', 5_000],
    ['SIGKILL', 5_000],
  ] as const) {
    if (pid !== null && runningPostmaster(dataDir, uid) === pid) process.kill(pid, signal);
    for (let waited = 0; waited < waitMs; waited += 20) {
      if (processesIn(dataDir, uid).length === 0) return;
      await sleep(20);
    }
  }
  throw new Error(
    `the Postgres on ${dataDir} does not stop: processes ${processesIn(dataDir, uid).join(', ')}`,
  );
}

/** Servers work in their data directory. Backends outlive a killed postmaster for a moment. */
function processesIn(dataDir: string, uid: number): number[] {
  const pids = readdirSync('/proc').map(Number).filter(Number.isInteger);
  return pids.filter((pid) => {
    try {
      return statSync(`/proc/${pid}`).uid === uid && readlinkSync(`/proc/${pid}/cwd`) === dataDir;
    } catch {
      return false; // gone, or a zombie, which has no directory any more
    }
  });
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
