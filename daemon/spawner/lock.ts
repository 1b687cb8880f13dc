// One spawner per state directory, by a lock of the kernel's: it goes with its process, however that ends.
import { execFileSync } from 'node:child_process';
import { closeSync, constants, openSync } from 'node:fs';
import { join } from 'node:path';

const FILE = 'spawner.lock';

/** Another spawner works in the same directories. */
export class SpawnerRunsError extends Error {}

/**
 * Locks the directory until `release` (idempotent) or the end of this process. Throws SpawnerRunsError while another process has it.
 * A lock belongs to the open file (flock(2)), so that one taken by a child on our descriptor is ours.
 */
export function lockDirectory(dir: string): { release(): void } {
  const path = join(dir, FILE);
  const fd = openSync(path, constants.O_RDWR | constants.O_CREAT | constants.O_NOFOLLOW, 0o600);
  try {
    execFileSync('flock', ['--nonblock', '3'], { stdio: ['ignore', 'ignore', 'pipe', fd] });
  } catch (error) {
    closeSync(fd);
    // flock(1) exits with 1 when the lock is taken, with 64 and more when something is wrong.
    if ((error as { status?: number }).status === 1)
      throw new SpawnerRunsError(`another spawner works in ${dir}`);
    throw error;
  }
  let held = true;
  return {
    release() {
      if (held) closeSync(fd);
      held = false;
    },
  };
}
