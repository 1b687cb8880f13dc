// The hashes by which an interrupted write is judged when a session resumes.
import { createHash } from 'node:crypto';
import { boundsOf, MissingFile, openInside } from './path-inside.ts';

/** SHA-256 in hex. */
export function hashBytes(bytes: Buffer): string {
  return createHash('sha256').update(bytes).digest('hex');
}

/**
 * SHA-256 of a file's content now, or null when there is no such file. Bounded memory.
 * @throws ToolError when the path lies outside the working directory and /tmp, or is not a regular file.
 */
export async function hashFile(path: string, cwd: string): Promise<string | null> {
  const hash = createHash('sha256');
  let handle: Awaited<ReturnType<typeof openInside>>;
  try {
    handle = await openInside(path, await boundsOf(cwd));
  } catch (error) {
    if (error instanceof MissingFile) return null;
    throw error;
  }
  try {
    const buffer = Buffer.allocUnsafe(1024 * 1024);
    for (;;) {
      const { bytesRead } = await handle.read(buffer, 0, buffer.length, null);
      if (bytesRead === 0) return hash.digest('hex');
      hash.update(buffer.subarray(0, bytesRead));
    }
  } finally {
    await handle.close();
  }
}
