// The uids of this machine's tenants: which tenant has which, and which were ever given out. A uid is never given twice,
// whatever database is restored. Root's file; replaced as a whole and durably.
import {
  closeSync,
  constants,
  fsyncSync,
  lstatSync,
  openSync,
  readFileSync,
  renameSync,
  writeFileSync,
} from 'node:fs';
import { dirname } from 'node:path';

export interface UidRange {
  first: number;
  last: number;
}
export const TENANT_UIDS: UidRange = { first: 200_000, last: 265_535 };

export interface UidRegistry {
  /** Every uid below was given out or skipped. */
  next: number;
  /** Uid by tenant id. */
  tenants: Record<string, number>;
}

const isRegistry = (value: unknown): value is UidRegistry & { v: 1 } => {
  if (typeof value !== 'object' || value === null) return false;
  const { v, next, tenants } = value as Record<string, unknown>;
  if (v !== 1 || !Number.isSafeInteger(next) || typeof tenants !== 'object' || tenants === null) return false;
  return Object.values(tenants).every((uid) => Number.isSafeInteger(uid));
};

/** Reads the registry; a missing file is an empty one, a damaged or foreign one an error (a guess could reuse a uid). */
export function readUidRegistry(path: string, range: UidRange = TENANT_UIDS): UidRegistry {
  let text: string;
  try {
    const stat = lstatSync(path);
    if (!stat.isFile() || stat.uid !== process.geteuid?.() || (stat.mode & 0o022) !== 0) {
      throw new Error(`${path} must be a file that only its owner can write`);
    }
    text = readFileSync(path, 'utf8');
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code !== 'ENOENT') throw error;
    return { next: range.first, tenants: Object.create(null) };
  }
  let value: unknown;
  try {
    value = JSON.parse(text);
  } catch {
    value = null; // reported below like any other damage
  }
  if (!isRegistry(value)) throw new Error(`${path} is damaged: put the last good copy back`);
  return { next: value.next, tenants: Object.assign(Object.create(null), value.tenants) };
}

/** Replaces the registry: after this returns it survives a power cut. */
export function writeUidRegistry(path: string, registry: UidRegistry): void {
  const fresh = `${path}.new`;
  const fd = openSync(
    fresh,
    constants.O_WRONLY | constants.O_CREAT | constants.O_TRUNC | constants.O_NOFOLLOW,
    0o600,
  );
  try {
    writeFileSync(fd, `${JSON.stringify({ v: 1, ...registry }, null, 1)}\n`);
    fsyncSync(fd);
  } finally {
    closeSync(fd);
  }
  renameSync(fresh, path);
  const directory = openSync(dirname(path), constants.O_RDONLY | constants.O_DIRECTORY);
  try {
    fsyncSync(directory);
  } finally {
    closeSync(directory);
  }
}

/** The next uid that is nobody's, and the registry with it taken. Throws when the range is used up. */
export function takeUid(
  registry: UidRegistry,
  tenantId: string,
  isTaken: (uid: number) => boolean,
  range: UidRange = TENANT_UIDS,
): { uid: number; registry: UidRegistry } {
  let uid = Math.max(registry.next, range.first);
  while (uid <= range.last && isTaken(uid)) uid += 1;
  if (uid > range.last) throw new Error(`no uid is left between ${range.first} and ${range.last}`);
  const tenants = Object.assign(Object.create(null), registry.tenants, { [tenantId]: uid });
  return { uid, registry: { next: uid + 1, tenants } };
}
