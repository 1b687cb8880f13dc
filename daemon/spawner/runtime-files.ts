// Root-owned copies of everything that runs in a sandbox, named by content: a replaced file never changes under a running job.
// A copy once made is never written again.
import { createHash, randomBytes } from 'node:crypto';
import {
  chmodSync,
  copyFileSync,
  existsSync,
  lstatSync,
  mkdirSync,
  readFileSync,
  renameSync,
  rmSync,
} from 'node:fs';
import { basename, join } from 'node:path';
import type { EngineDefinition } from './engines.ts';

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
  engines: ReadonlyMap<string, EngineFiles>;
}

export interface RuntimeSources {
  stateDir: string;
  nodePath: string;
  workerPath: string | null;
  engines: Iterable<EngineDefinition>;
}

interface SourceFile {
  path: string;
  name: string;
  mode: number;
}

function contentId(files: readonly SourceFile[]): string {
  const hash = createHash('sha256');
  for (const { path, name, mode } of files) {
    if (!lstatSync(path).isFile()) throw new Error(`${path} is not a plain file`);
    hash.update(`${name} ${mode} `).update(createHash('sha256').update(readFileSync(path)).digest());
  }
  return hash.digest('hex').slice(0, 32);
}

/** Copies the files into `<root>/<content id>/` unless that is there already. Safe against two at once. */
function keep(root: string, files: readonly SourceFile[]): string {
  const target = join(root, contentId(files));
  if (existsSync(target)) return target;
  const fresh = join(root, `.new-${randomBytes(8).toString('hex')}`);
  mkdirSync(fresh, { mode: 0o755 });
  try {
    for (const { path, name, mode } of files) {
      copyFileSync(path, join(fresh, name));
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
  const one = (path: string, name: string, mode: number) => join(keep(root, [{ path, name, mode }]), name);
  const node = one(sources.nodePath, 'node', 0o711);
  const worker = sources.workerPath === null ? null : one(sources.workerPath, 'djinn.cjs', 0o644);
  const engines = new Map<string, EngineFiles>();
  for (const { name, dir, files } of sources.engines) {
    const kept = files.map((file) => ({ path: join(dir, file), name: basename(file), mode: 0o644 }));
    engines.set(name, { node, worker, filesDir: kept.length === 0 ? null : keep(root, kept) });
  }
  return { node, worker, engines };
}
