// Copies of everything that runs in a sandbox: a replaced source never changes under a running job.
import { chmodSync, lstatSync, mkdirSync } from 'node:fs';
import { basename, dirname, join } from 'node:path';
import type { EngineDefinition } from './engines.ts';
import { dropOthers, keepFiles } from './kept-files.ts';
import { seccompFilter } from './seccomp.ts';

/** Sources of one engine's mounts. */
export interface EngineFiles {
  node: string;
  worker: string | null;
  filesDir: string | null;
}

export interface RuntimeFiles {
  /** Where the copies are; root's. */
  dir: string;
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

/** Makes the copies that are not there yet and says where they are. */
export function prepareRuntimeFiles(sources: RuntimeSources): RuntimeFiles {
  const dir = join(sources.stateDir, 'runtime');
  mkdirSync(dir, { recursive: true, mode: 0o711 });
  chmodSync(dir, 0o711);
  const one = (from: string | Buffer, name: string, mode: number) =>
    join(keepFiles(dir, [{ from, name, mode }]), name);
  const node = one(sources.nodePath, 'node', 0o711);
  const worker = sources.workerPath === null ? null : one(sources.workerPath, 'djinn.cjs', 0o644);
  const filter = seccompFilter(process.arch);
  const seccomp = filter === null ? null : one(filter, 'seccomp.bpf', 0o644);
  const engines = new Map<string, EngineFiles>();
  for (const { name, dir: from, files } of sources.engines) {
    const kept = files.map((file) => {
      const path = join(from, file);
      return { from: path, name: basename(file), mode: isExecutable(path) ? 0o755 : 0o644 };
    });
    engines.set(name, { node, worker, filesDir: kept.length === 0 ? null : keepFiles(dir, kept) });
  }
  return { dir, node, worker, seccomp, engines };
}

const isExecutable = (path: string): boolean => (lstatSync(path).mode & 0o100) !== 0;

/** Removes the copies of earlier versions. Only for a start, when no job runs. */
export function dropEarlierVersions({ dir, node, worker, seccomp, engines }: RuntimeFiles): void {
  const files = [node, worker, seccomp].filter((path) => path !== null).map((path) => dirname(path));
  const folders = [...engines.values()].flatMap(({ filesDir }) => (filesDir === null ? [] : [filesDir]));
  dropOthers(dir, new Set([...files, ...folders]));
}
