// The errors of this library. Each names the file of the kernel's interface that refused and what it said.
import type { Control } from './types.ts';

/** The symbolic errno of a failed system call (`EBUSY`), or its message when there is none. */
export function errnoOf(error: unknown): string {
  if (error instanceof Error) return (error as NodeJS.ErrnoException).code ?? error.message;
  return String(error);
}

/**
 * A limit could not be applied, or reads back as something else. Nothing was started.
 * `control` is `cgroup` when the directory itself could not be made; `got` is what was read, or the errno.
 */
export class LimitError extends Error {
  override name = 'LimitError';
  readonly control: Control | 'cgroup';
  readonly file: string;
  readonly wanted: string;
  readonly got: string;

  constructor(control: Control | 'cgroup', file: string, wanted: string, got: string) {
    super(
      `${control} limit not applied: ${file} should be ${JSON.stringify(wanted)}, got ${JSON.stringify(got)}`,
    );
    this.control = control;
    this.file = file;
    this.wanted = wanted;
    this.got = got;
  }
}

/** The delegated directory cannot carry a tree: `code` says why, `errno` what the kernel said. */
export class TreeError extends Error {
  override name = 'TreeError';
  readonly code: 'not_cgroup2' | 'not_created' | 'not_entered' | 'not_enabled';
  readonly path: string;
  readonly errno: string | null;

  constructor(code: TreeError['code'], path: string, errno: string | null, message: string) {
    super(`${path}: ${message}${errno === null ? '' : ` (${errno})`}`);
    this.code = code;
    this.path = path;
    this.errno = errno;
  }
}
