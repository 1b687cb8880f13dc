// Root-owned copies of everything that runs in a sandbox, named by content: a replaced file never changes under a running job.
// A copy once made is never written again.
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
  writeFileSync,
} from 'node:fs';
import { basename, join } from 'node:path';
import type { EngineDefinition } from './engines.ts';
import { seccompFilter } from './seccomp.ts';

/** Sources of one engine's mounts. */
export interface EngineFiles {
  node: string;
  worker: string | null;
  filesDir: string | null;
}

export interface RuntimeFiles {
  /** Mode 0711: a program that its user cannot read is undumpable once executed. */
  node: string;
  /** Null until the worker is built. */
  worker: string | null;
  /** The system call filter; null on a machine that it is not written for. */
  seccomp: string | null;
  engines: ReadonlyMap<string, EngineFiles>;
}

export interface RuntimeSources {
  stateDir: string;
  nodePath: string;
  workerPath: string | null;
  engines: Iterable<EngineDefinition>;
}

interface KeptFile {
  name: string;
  mode: number;
  /** A file to copy, or the content itself. */
  from: string | Buffer;
}

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

function contentId(files: readonly KeptFile[]): string {
  const hash = createHash('sha256');
  for (const { from, name, mode } of files) hash.update(`${name} ${mode} `).update(digestOf(from));
  return hash.digest('hex').slice(0, 32);
}

/** Puts the files into `<root>/<content id>/` unless that is there already. Safe against two at once. */
function keep(root: string, files: readonly KeptFile[]): string {
  const target = join(root, contentId(files));
  if (existsSync(target)) return target;
  const fresh = join(root, `.new-${randomBytes(8).toString('hex')}`);
  mkdirSync(fresh, { mode: 0o755 });
  try {
    for (const { from, name, mode } of files) {
      if (typeof from === 'string') copyFileSync(from, join(fresh, name));
      else writeFileSync(join(fresh, name), from);
      chmodSync(join(fresh, name), mode);
    }
    chmodSync(fresh, 0o755);
    renameSync(fresh, target);
  } catch (error) {
    rmSync(fresh, { recursive: true, force: true });
    if (!existsSync(target)) throw error; // another spawner was first with the same content
  }
  return target;
}

/** Makes the copies (once per content, about 0.3 s for Node) and says where they are. */
export function prepareRuntimeFiles(sources: RuntimeSources): RuntimeFiles {
  const root = join(sources.stateDir, 'runtime');
  mkdirSync(root, { recursive: true, mode: 0o711 });
  chmodSync(root, 0o711);
  const one = (from: string | Buffer, name: string, mode: number) =>
    join(keep(root, [{ from, name, mode }]), name);
  const node = one(sources.nodePath, 'node', 0o711);
  const worker = sources.workerPath === null ? null : one(sources.workerPath, 'djinn.cjs', 0o644);
  const filter = seccompFilter(process.arch);
  const seccomp = filter === null ? null : one(filter, 'seccomp.bpf', 0o644);
  const engines = new Map<string, EngineFiles>();
  for (const { name, dir, files } of sources.engines) {
    const kept = files.map((file) => ({ from: join(dir, file), name: basename(file), mode: 0o644 }));
    engines.set(name, { node, worker, filesDir: kept.length === 0 ? null : keep(root, kept) });
  }
  return { node, worker, seccomp, engines };
}
