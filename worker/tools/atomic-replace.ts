// Replaces a file's content in one step: a reader, or a kill at any moment, sees the old content or the new one.
// A hard link is replaced, never written through. Mode and owner stay; access lists and extended attributes do not.
import { constants, type Stats } from 'node:fs';
import { access, lstat, open, readdir, rename, unlink } from 'node:fs/promises';
import { ToolError } from './define-tool.ts';
import { type Place, pathAt } from './path-inside.ts';
import { startTicksOf } from './process-table.ts';

const TEMPORARY = /^\.djinn-write-(\d+)-(\d+)-\d+$/;
const swept = new Set<string>();
let counter = 0;

/** True for the name of a file that is being written (or whose writer was killed). */
export const isTemporary = (name: string): boolean => TEMPORARY.test(name);

/**
 * Writes `bytes` as the content of the place's file. A new file gets mode 0666 less the umask.
 * `unchanged` is called right before the switch and may throw to keep the old content.
 */
export async function replaceFile(
  place: Place,
  bytes: Buffer,
  unchanged?: (now: Stats | null) => void,
): Promise<void> {
  await sweep(place);
  const target = pathAt(place, place.name);
  const old = await statFile(place);
  if (old !== null) await access(target, constants.W_OK);
  const temporary = pathAt(place, `.djinn-write-${process.pid}-${ownStartTicks()}-${counter++}`);
  const flags = constants.O_WRONLY | constants.O_CREAT | constants.O_EXCL | constants.O_NOFOLLOW;
  const handle = await open(temporary, flags, old === null ? 0o666 : 0o600);
  try {
    await handle.writeFile(bytes);
    if (old !== null) {
      // Not permitted unless root: then the set-id bits, which belong to the old owner, go.
      const kept = await handle.chown(old.uid, old.gid).then(
        () => true,
        () => false,
      );
      await handle.chmod(old.mode & (kept ? 0o7777 : 0o777));
    }
    await handle.close();
    unchanged?.(await statFile(place));
    await rename(temporary, target);
  } catch (error) {
    await handle.close().catch(() => {}); // Closed twice when the rename failed.
    await unlink(temporary).catch(() => {}); // The first failure is the one to report.
    throw error;
  }
}

/** The file at a place, or null; throws for anything but a regular file. */
export async function statFile(place: Place): Promise<Stats | null> {
  try {
    const stat = await lstat(pathAt(place, place.name));
    if (stat.isFile()) return stat;
    throw new ToolError(`${place.name} is ${stat.isDirectory() ? 'a directory' : 'not a regular file'}`);
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code === 'ENOENT') return null;
    throw error;
  }
}

/** Removes what killed writers left in a directory, once per directory and process. */
async function sweep(place: Place): Promise<void> {
  const { dev, ino, birthtimeMs } = await place.directory.stat();
  // A new directory may get the inode of a removed one.
  const key = `${dev}:${ino}:${birthtimeMs}`;
  if (swept.has(key)) return;
  swept.add(key);
  for (const name of await readdir(pathAt(place, '.')).catch(() => [])) {
    const owner = TEMPORARY.exec(name);
    if (owner === null || startTicksOf(Number(owner[1])) === owner[2]) continue;
    await unlink(pathAt(place, name)).catch(() => {}); // Someone else's: left alone.
  }
}

let cachedStartTicks: string | undefined;
function ownStartTicks(): string {
  cachedStartTicks ??= startTicksOf(process.pid) ?? '0';
  return cachedStartTicks;
}
