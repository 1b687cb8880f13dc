// The trials of a probe: each does one thing in an empty cgroup made for it and says what the control is worth.
import { join } from 'node:path';
import { errnoOf, LimitError } from './errors.ts';
import { readOptional, readValue, writeValue } from './files.ts';
import { applySetting, type Setting } from './limits.ts';
import type { ControlReport } from './types.ts';

export const FULL: ControlReport = { level: 'full' };

/** Writes the settings and reads each back. */
export function tryLimits(dir: string, settings: Setting[], procRoot: string): ControlReport {
  try {
    for (const setting of settings) applySetting(dir, setting, procRoot);
    return FULL;
  } catch (error) {
    if (!(error instanceof LimitError)) throw error;
    const reason = `${error.file.slice(dir.length + 1)} does not take ${error.wanted}: ${error.got}`;
    const remedy =
      error.control === 'swap'
        ? 'swapoff -a, or boot with swapaccount=1'
        : 'use a kernel that has it (6.1 or later has all)';
    return { level: 'none', reason, remedy };
  }
}

export function probeIo(dir: string): ControlReport {
  if (readOptional(join(dir, 'io.stat')) === null) {
    return { level: 'none', reason: 'io.stat cannot be read', remedy: 'use a kernel with CONFIG_BLK_CGROUP' };
  }
  const remedy = 'keep the state directory on a disk of its own';
  return { level: 'partial', reason: 'input and output are counted, not limited', remedy };
}

export function probeKill(dir: string): ControlReport {
  const remedy = 'use Linux 5.14 or later';
  try {
    writeValue(join(dir, 'cgroup.kill'), '1');
    return FULL;
  } catch (error) {
    const errno = errnoOf(error);
    if (probeFreeze(dir).level === 'full') {
      return {
        level: 'partial',
        reason: `no cgroup.kill (${errno}): freezes, kills one by one, thaws`,
        remedy,
      };
    }
    return { level: 'none', reason: `neither cgroup.kill (${errno}) nor cgroup.freeze works`, remedy };
  }
}

export function probeFreeze(dir: string): ControlReport {
  const file = join(dir, 'cgroup.freeze');
  try {
    writeValue(file, '1');
    const frozen = readValue(file);
    writeValue(file, '0');
    if (frozen === '1') return FULL;
    return { level: 'none', reason: `cgroup.freeze reads back ${frozen}`, remedy: 'use Linux 5.2 or later' };
  } catch (error) {
    return {
      level: 'none',
      reason: `no cgroup.freeze (${errnoOf(error)})`,
      remedy: 'use Linux 5.2 or later',
    };
  }
}

export function probeEvents(dir: string): ControlReport {
  if (/^populated 0$/m.test(readOptional(join(dir, 'cgroup.events')) ?? '')) return FULL;
  return { level: 'none', reason: 'cgroup.events does not tell populated', remedy: 'use Linux 5.2 or later' };
}
