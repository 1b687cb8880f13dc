// One writer per session: a symbolic link whose target names the holder. Making a link is atomic and carries its
// text, so a lock is never half-written. Never removes the lock of another live holder.
import { readFileSync, readlinkSync, renameSync, symlinkSync, unlinkSync } from 'node:fs';
import { StoreError } from './store.ts';

export interface SessionLock {
  /** Throws a StoreError `lost` when a later writer took the session over. */
  check(): void;
  release(): void;
}

interface Holder {
  epoch: number;
  pid: number;
  /** Field 22 of /proc/PID/stat: a reused pid has another. */
  startTicks: string;
  bootId: string;
  pidNamespace: string;
}

function readText(path: string): string {
  try {
    return readFileSync(path, 'utf8').trim();
  } catch {
    return ''; // No /proc here: identity then rests on the pid alone.
  }
}

function readLink(path: string): string {
  try {
    return readlinkSync(path);
  } catch {
    return '';
  }
}

function startTicks(pid: number): string {
  const stat = readText(`/proc/${pid}/stat`);
  return stat.slice(stat.lastIndexOf(')') + 2).split(' ')[19] ?? '';
}

const format = (holder: Holder, token: string): string =>
  [holder.epoch, holder.pid, holder.startTicks, holder.bootId, holder.pidNamespace, token].join(',');

function parse(text: string): Holder {
  const [epoch = '0', pid = '0', ticks = '', bootId = '', pidNamespace = ''] = text.split(',');
  return { epoch: Number(epoch) || 0, pid: Number(pid) || 0, startTicks: ticks, bootId, pidNamespace };
}

/** A holder of another boot is dead; one of another pid namespace cannot be asked, so it is superseded. */
function isAlive(holder: Holder, self: Holder): boolean {
  if (holder.bootId !== self.bootId || holder.pidNamespace !== self.pidNamespace) return false;
  try {
    process.kill(holder.pid, 0);
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code !== 'EPERM') return false;
  }
  return holder.startTicks === '' || startTicks(holder.pid) === holder.startTicks;
}

function ourselves(): Holder {
  return {
    epoch: 1,
    pid: process.pid,
    startTicks: startTicks(process.pid),
    bootId: readText('/proc/sys/kernel/random/boot_id'),
    pidNamespace: readLink('/proc/self/ns/pid'),
  };
}

/** True while a live process that this one can see holds the lock. Takes nothing. */
export function isLocked(path: string): boolean {
  const found = readLink(path);
  return found !== '' && isAlive(parse(found), ourselves());
}

/**
 * Takes the lock at `path`. Throws a StoreError `busy` while another live process of this machine holds it; the lock
 * of a dead holder is taken over at a higher epoch.
 */
export function lockSession(path: string): SessionLock {
  // Tells two openings by one process apart; not a secret, so `node:crypto` (5 ms) is not loaded for it.
  const token = `${process.hrtime.bigint().toString(36)}${Math.random().toString(36).slice(2)}`;
  const self = ourselves();
  let mine = format(self, token);
  for (let tries = 0; tries < 20; tries += 1) {
    try {
      symlinkSync(mine, path);
      return {
        check() {
          if (readLink(path) !== mine) throw new StoreError('lost', 'another process took this session over');
        },
        release() {
          if (readLink(path) === mine) unlinkSync(path);
        },
      };
    } catch (error) {
      if ((error as NodeJS.ErrnoException).code !== 'EEXIST') throw error;
    }
    const found = readLink(path);
    if (found === '') continue;
    const holder = parse(found);
    if (isAlive(holder, self)) throw new StoreError('busy', `the session is in use by process ${holder.pid}`);
    self.epoch = holder.epoch + 1;
    mine = format(self, token);
    removeStale(path, found, token);
  }
  throw new StoreError('busy', 'the session is in use: its lock changes hands');
}

/** Renames before it removes, so that a lock which another taker has just made is noticed and put back. */
function removeStale(path: string, expected: string, token: string): void {
  const aside = `${path}.${token}`;
  if (readLink(path) !== expected) return;
  try {
    renameSync(path, aside);
  } catch {
    return; // Another taker was first.
  }
  const moved = readLink(aside);
  unlinkSync(aside);
  if (moved === expected) return;
  try {
    symlinkSync(moved, path);
  } catch {
    // A third taker holds it now; the one whose lock was moved sees that at its next append and stops.
  }
}
