// Runs a command with this clone bound to a place that every user can reach: the clone may lie in a folder of mode 0700.
import { realpathSync } from 'node:fs';
import { join, relative } from 'node:path';

export const CLONE = join(import.meta.dirname, '../..');

/** Node's place in a clone that is seen at `at`. */
export const nodeAt = (at: string): string => join(at, relative(CLONE, realpathSync(process.execPath)));

/** `command` in a mount namespace of its own, with the clone bound to the existing directory `at`. Needs root. */
export function withCloneAt(at: string, command: string[]): [program: string, args: string[]] {
  const bind = 'mount --bind "$1" "$2" && cd "$2" && shift 2 && exec "$@"';
  return ['unshare', ['--mount', '--propagation', 'private', 'sh', '-c', bind, 'sh', CLONE, at, ...command]];
}
