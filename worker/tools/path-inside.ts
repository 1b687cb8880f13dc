// Opens files inside the working directory and /tmp, links resolved; never hands out a descriptor that lies elsewhere.
// A path is checked, opened without following a link, and the opened descriptor's own path is checked again:
// a directory that is swapped for a link in between is caught.
import { constants } from 'node:fs';
import { type FileHandle, mkdir, open, readlink, realpath, stat } from 'node:fs/promises';
import { basename, dirname, join, relative, resolve } from 'node:path';
import { ToolError } from './define-tool.ts';

const IS_LINUX = process.platform === 'linux';
/** open(2): a descriptor that only names a place, so that directories without read permission work too. */
const O_PATH = IS_LINUX ? 0o10000000 : 0;
const DIRECTORY = O_PATH | constants.O_DIRECTORY | constants.O_NOFOLLOW;

/** Thrown where something that must exist does not. */
export class MissingFile extends ToolError {
  constructor(path: string) {
    super(`${path}: no such file or directory`);
  }
}

/** Where file tools may work. Taken anew for each call. */
export interface Bounds {
  /** Relative paths start here. */
  cwd: string;
  /** The real paths of the working directory and /tmp. */
  roots: string[];
}

/** @throws ToolError when the working directory is gone. */
export async function boundsOf(cwd: string): Promise<Bounds> {
  const own = await realpath(cwd).catch(() => null);
  if (own === null) throw new ToolError(`the working directory ${cwd} is gone; a bash call makes it again`);
  const temporary = await realpath('/tmp').catch(() => null);
  return { cwd, roots: temporary === null ? [own] : [own, temporary] };
}

const isInside = (path: string, { roots }: Bounds): boolean =>
  roots.some((root) => path === root || path.startsWith(root.endsWith('/') ? root : `${root}/`));

function absolute(path: string, { cwd }: Bounds): string {
  if (path.includes('\0')) throw new ToolError('the path contains a NUL byte');
  return resolve(cwd, path);
}

const isMissing = (error: unknown): boolean => (error as NodeJS.ErrnoException).code === 'ENOENT';

/**
 * The real path of something that exists.
 * @throws ToolError when it is missing or lies outside.
 */
export async function resolveInside(path: string, bounds: Bounds): Promise<string> {
  let real: string;
  try {
    real = await realpath(absolute(path, bounds));
  } catch (error) {
    if (isMissing(error)) throw new MissingFile(path);
    throw error;
  }
  if (!isInside(real, bounds)) throw outside(path);
  return real;
}

const outside = (path: string): ToolError =>
  new ToolError(`${path} is outside the working directory and /tmp, where file tools do not reach`);

async function checkHandle(handle: FileHandle, path: string, bounds: Bounds): Promise<void> {
  if (!IS_LINUX) return;
  const real = await readlink(`/proc/self/fd/${handle.fd}`);
  if (!isInside(real, bounds)) throw outside(path);
}

async function openChecked(real: string, flags: number, path: string, bounds: Bounds): Promise<FileHandle> {
  const handle = await open(real, flags);
  try {
    await checkHandle(handle, path, bounds);
    return handle;
  } catch (error) {
    await handle.close();
    throw error;
  }
}

/** Opens a regular file for reading. The caller closes it. */
export async function openInside(path: string, bounds: Bounds): Promise<FileHandle> {
  const real = await resolveInside(path, bounds);
  // O_NONBLOCK: opening a FIFO without a writer would hang.
  const flags = constants.O_RDONLY | constants.O_NOFOLLOW | constants.O_NONBLOCK;
  const handle = await openChecked(real, flags, path, bounds);
  const stat = await handle.stat();
  if (stat.isFile()) return handle;
  await handle.close();
  throw new ToolError(stat.isDirectory() ? `${path} is a directory` : `${path} is not a regular file`);
}

/** A directory's path by way of its descriptor, which no rename of its parents can redirect. */
export function throughHandle(directory: FileHandle, path: string): string {
  return IS_LINUX ? `/proc/self/fd/${directory.fd}` : path;
}

/** Opens a directory for a listing by its real path. The caller closes it. */
export async function openDirectory(real: string, bounds: Bounds): Promise<FileHandle> {
  return openChecked(real, constants.O_RDONLY | constants.O_DIRECTORY | constants.O_NOFOLLOW, real, bounds);
}

/** A place for a file: an opened directory and a name in it, which later renames of parents cannot redirect. */
export interface Place {
  directory: FileHandle;
  name: string;
  /** For messages and locks. */
  realPath: string;
}

/** The path of a name in a place's directory, valid while the directory is open. */
export function pathAt(place: Place, name: string): string {
  return join(throughHandle(place.directory, dirname(place.realPath)), name);
}

/** Finds the place of a file that may not exist yet. `create` makes missing parents. The caller closes `directory`. */
export async function openPlace(path: string, bounds: Bounds, create: boolean): Promise<Place> {
  const wanted = await followLinks(absolute(path, bounds), path);
  const { existing, missing } = await deepestExisting(dirname(wanted));
  if (!isInside(existing, bounds)) throw outside(path);
  if (missing.length > 0 && !create) throw new MissingFile(path);
  let directory = await openChecked(existing, DIRECTORY, path, bounds);
  let realPath = existing;
  try {
    for (const part of missing) {
      const next = pathAt({ directory, name: part, realPath: join(realPath, part) }, part);
      await mkdir(next).catch((error: NodeJS.ErrnoException) => {
        if (error.code !== 'EEXIST') throw error;
      });
      const opened = await open(next, DIRECTORY);
      await directory.close();
      directory = opened;
      realPath = join(realPath, part);
    }
  } catch (error) {
    await directory.close();
    throw error;
  }
  const name = basename(wanted);
  return { directory, name, realPath: join(realPath, name) };
}

/** A final link is written through, to where it points; one that points nowhere is refused. */
async function followLinks(wanted: string, path: string): Promise<string> {
  if (path.endsWith('/')) throw new ToolError(`${path} names a directory`);
  try {
    const real = await realpath(wanted);
    if (!(await stat(real)).isDirectory()) return real;
    throw new ToolError(`${path} is a directory`);
  } catch (error) {
    if (!isMissing(error)) throw error;
  }
  const target = await readlink(wanted).catch(() => null);
  if (target !== null) throw new ToolError(`${path} is a symbolic link to a missing file`);
  return wanted;
}

async function deepestExisting(directory: string): Promise<{ existing: string; missing: string[] }> {
  let candidate = directory;
  for (;;) {
    try {
      const existing = await realpath(candidate);
      const missing = relative(candidate, directory);
      return { existing, missing: missing === '' ? [] : missing.split('/') };
    } catch (error) {
      if (!isMissing(error) || candidate === dirname(candidate)) throw error;
      candidate = dirname(candidate);
    }
  }
}
