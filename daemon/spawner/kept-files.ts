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
  readdirSync,
  readFileSync,
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

const LARGE_BYTES = 16n * 1024n * 1024n;

/**
 * What a source is known by: its content, or for a large one (Node is 120 MB, which takes 0.3 s on a good day) the
 * file itself; its change time cannot be set by anybody, so a rewritten file counts as another.
 */
function digestOf(from: string | Buffer): Buffer {
  const hash = createHash('sha256');
  if (typeof from !== 'string') return hash.update(from).digest();
  const fd = openSync(from, constants.O_RDONLY | constants.O_NOFOLLOW);
  try {
    const stat = fstatSync(fd, { bigint: true });
    const { dev, ino, size, mtimeNs, ctimeNs } = stat;
    if (!stat.isFile()) throw new Error(`${from} is not a plain file`);
    if (size > LARGE_BYTES) return hash.update([dev, ino, size, mtimeNs, ctimeNs].join(' ')).digest();
    return hash.update(readFileSync(fd)).digest();
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

/** Removes the sets of earlier starts, and what a killed start left half made. */
export function dropOthers(root: string, used: ReadonlySet<string>): void {
  for (const name of readdirSync(root)) {
    if (!used.has(join(root, name))) rmSync(join(root, name), { recursive: true, force: true });
  }
}
