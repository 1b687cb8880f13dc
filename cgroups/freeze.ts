// Stops and continues everything below a cgroup. Frozen processes can still be killed.
import { join } from 'node:path';
import type { CallGroup } from './create.ts';
import { errnoOf } from './errors.ts';
import { writeValue } from './files.ts';

/** Freezes the call; `frozen` of its state tells when that is complete. False where the kernel cannot. */
export function freezeCall(call: CallGroup): boolean {
  return writeFreeze(call.path, '1');
}

/** Lets a frozen call run on. False where the kernel cannot, or the call is gone. */
export function thawCall(call: CallGroup): boolean {
  return writeFreeze(call.path, '0');
}

export function writeFreeze(path: string, value: '0' | '1'): boolean {
  try {
    writeValue(join(path, 'cgroup.freeze'), value);
    return true;
  } catch (error) {
    const errno = errnoOf(error);
    // ENOENT: no freezer before 5.2, or the cgroup is gone. ENODEV: it went while it was open.
    if (errno === 'ENOENT' || errno === 'ENODEV') return false;
    throw error;
  }
}
