// Root-owned sets of files named by their content: once made they are never written again.
import { createHash, randomBytes } from 'node:crypto';
import {
  chmodSync,
  closeSync,
  constants,
  copyFileSync,
  existsSync,
  fstatSync,
  mkdirSync,
  openSync,
  readSync,
  renameSync,
  rmSync,
  symlinkSync,
  writeFileSync,
} from 'node:fs';
import { join } from 'node:path';

export type KeptEntry =
  /** A file to copy (a path) or its content. */
  | { name: string; mode: number; from: string | Buffer }
  | { name: string; link: string }
  | { name: string; directory: true };

const BLOCK_BYTES = 1024 * 1024;

/** Hashes in blocks: Node is 120 MB, and this process stays small. */
function digestOf(from: string | Buffer): Buffer {
  const hash = createHash('sha256');
  if (typeof from !== 'string') return hash.update(from).digest();
  const fd = openSync(from, constants.O_RDONLY | constants.O_NOFOLLOW);
  try {
    if (!fstatSync(fd).isFile()) throw new Error(`${from} is not a plain file`);
    const block = Buffer.allocUnsafe(BLOCK_BYTES);
    for (let bytes = -1; bytes !== 0; ) {
      bytes = readSync(fd, block, 0, BLOCK_BYTES, null);
      hash.update(block.subarray(0, bytes));
    }
    return hash.digest();
  } finally {
    closeSync(fd);
  }
}

function contentId(entries: readonly KeptEntry[]): string {
  const hash = createHash('sha256');
  for (const entry of entries) {
    if ('from' in entry) hash.update(`file ${entry.name} ${entry.mode} `).update(digestOf(entry.from));
    else hash.update(JSON.stringify(entry));
  }
  return hash.digest('hex').slice(0, 32);
}

function make(dir: string, entry: KeptEntry): void {
  const path = join(dir, entry.name);
  if ('directory' in entry) {
    mkdirSync(path, { mode: 0o755 });
    chmodSync(path, 0o755);
  } else if ('link' in entry) {
    symlinkSync(entry.link, path);
  } else {
    if (typeof entry.from === 'string') copyFileSync(entry.from, path);
    else writeFileSync(path, entry.from);
    chmodSync(path, entry.mode);
  }
}

/**
 * Puts the entries into `<root>/<content id>/` unless that is there already, and answers the path. Directories come
 * before what lies in them. Safe against two at once.
 */
export function keepFiles(root: string, entries: readonly KeptEntry[]): string {
  const target = join(root, contentId(entries));
  if (existsSync(target)) return target;
  const fresh = join(root, `.new-${randomBytes(8).toString('hex')}`);
  mkdirSync(fresh, { mode: 0o755 });
  try {
    for (const entry of entries) make(fresh, entry);
    chmodSync(fresh, 0o755);
    renameSync(fresh, target);
  } catch (error) {
    rmSync(fresh, { recursive: true, force: true });
    if (!existsSync(target)) throw error; // another spawner was first with the same content
  }
  return target;
}
