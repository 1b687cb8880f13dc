// Walks a directory tree in sorted order. Never follows a link to a directory, so it ends and stays inside.
import type { Dirent } from 'node:fs';
import { readdir, stat } from 'node:fs/promises';
import { join } from 'node:path';
import { isTemporary } from './atomic-replace.ts';
import { ToolError } from './define-tool.ts';
import { type Bounds, openDirectory, resolveInside, throughHandle } from './path-inside.ts';

/** Not entered unless the walk starts inside them. */
const SKIPPED = new Set(['.git', 'node_modules']);
const MAX_DEPTH = 200;
const TIME_LIMIT_MS = 20_000;

export interface WalkedFile {
  /** Below the start, with `/`. */
  relative: string;
  path: string;
}

/** What a walk left out, for the note at the end of a result. */
export interface WalkGaps {
  unreadable: number;
}

export interface WalkOptions {
  bounds: Bounds;
  /** Judges a file's path below the start. */
  keep: (relative: string) => boolean;
  /** Called for every entry; may throw to end the walk. */
  checkpoint: () => void;
  gaps: WalkGaps;
}

/**
 * Yields the regular files below `start`, a real path, in order. Links to regular files inside the bounds count.
 */
export async function* walkFiles(start: string, options: WalkOptions): AsyncGenerator<WalkedFile> {
  const stack = [{ relative: '', depth: 0, isDirectory: true }];
  for (let next = stack.pop(); next !== undefined; next = stack.pop()) {
    options.checkpoint();
    const path = next.relative === '' ? start : join(start, next.relative);
    if (!next.isDirectory) {
      yield { relative: next.relative, path };
      continue;
    }
    const entries = next.depth < MAX_DEPTH ? await list(path, options.bounds) : null;
    if (entries === null) {
      options.gaps.unreadable++;
      continue;
    }
    // Reversed: the stack gives them back in order.
    entries.sort((a, b) => (a.name < b.name ? 1 : -1));
    for (const entry of entries) {
      const relative = next.relative === '' ? entry.name : `${next.relative}/${entry.name}`;
      if (await isWanted(entry, relative, join(path, entry.name), options)) {
        stack.push({ relative, depth: next.depth + 1, isDirectory: entry.isDirectory() });
      }
    }
  }
}

/** A checkpoint that ends a search when the call is cancelled or after 20 s. */
export function createCheckpoint(signal: AbortSignal): () => void {
  const endMs = Date.now() + TIME_LIMIT_MS;
  return () => {
    if (signal.aborted) throw new ToolError('cancelled');
    if (Date.now() > endMs)
      throw new ToolError(`stopped after ${TIME_LIMIT_MS / 1000} s; search a smaller directory`);
  };
}

async function isWanted(
  entry: Dirent,
  relative: string,
  path: string,
  options: WalkOptions,
): Promise<boolean> {
  if (entry.isDirectory()) return !SKIPPED.has(entry.name);
  if (isTemporary(entry.name) || !options.keep(relative)) return false;
  return entry.isFile() || (entry.isSymbolicLink() && (await leadsToFile(path, options.bounds)));
}

async function list(path: string, bounds: Bounds): Promise<Dirent[] | null> {
  try {
    const directory = await openDirectory(path, bounds);
    try {
      return await readdir(throughHandle(directory, path), { withFileTypes: true });
    } finally {
      await directory.close();
    }
  } catch {
    return null; // Not permitted, gone meanwhile, or outside by now: counted by the caller.
  }
}

async function leadsToFile(path: string, bounds: Bounds): Promise<boolean> {
  try {
    return (await stat(await resolveInside(path, bounds))).isFile();
  } catch {
    return false; // Points nowhere or outside.
  }
}
