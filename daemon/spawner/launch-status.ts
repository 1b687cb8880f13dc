// Reads what a launch says about itself: stage marks, messages and bubblewrap's JSON on one descriptor. Pure.

/** Stages of a launch in order. `launcher`: the first program could not be started at all. */
export type LaunchStage = 'launcher' | 'cgroup' | 'mount' | 'sandbox' | 'user' | 'exec';

const ERRNO_BY_TEXT: readonly [RegExp, string][] = [
  [/no such file or directory|not found/i, 'ENOENT'],
  [/permission denied/i, 'EACCES'],
  [/operation not permitted/i, 'EPERM'],
  [/no space left/i, 'ENOSPC'],
  [/device or resource busy/i, 'EBUSY'],
  [/resource temporarily unavailable|cannot fork/i, 'EAGAIN'],
  [/cannot allocate memory|out of memory/i, 'ENOMEM'],
  [/no such device/i, 'ENODEV'],
  [/read-only file system/i, 'EROFS'],
  [/not a directory/i, 'ENOTDIR'],
  [/is a directory/i, 'EISDIR'],
  [/file exists/i, 'EEXIST'],
  [/too many open files/i, 'EMFILE'],
  [/too many levels of symbolic links/i, 'ELOOP'],
  [/invalid argument/i, 'EINVAL'],
  [/function not implemented/i, 'ENOSYS'],
  [/input\/output error|i\/o error/i, 'EIO'],
];

/** The errno's name in a tool's message (messages are in the C locale), or EUNKNOWN. */
export function errnoInText(message: string): string {
  return ERRNO_BY_TEXT.find(([pattern]) => pattern.test(message))?.[1] ?? 'EUNKNOWN';
}

const MAX_TEXT_BYTES = 8192;

/** Collects the status descriptor's text. */
export class LaunchStatus {
  #pending = '';
  #kept = 0;
  #messages: string[] = [];
  stage: LaunchStage = 'launcher';
  /** The pid namespace's init, as seen from here. */
  initPid: number | null = null;
  /** The program's exit code as bubblewrap reports it: 128 + N after signal N. */
  exitCode: number | null = null;

  push(chunk: string): void {
    const lines = (this.#pending + chunk).split('\n');
    this.#pending = (lines.pop() ?? '').slice(0, MAX_TEXT_BYTES);
    for (const line of lines) this.#line(line);
  }

  /** The last messages, for a person. */
  get message(): string {
    return [...this.#messages, this.#pending].join('; ').replace(/(; )+$/, '');
  }

  #line(line: string): void {
    if (line.startsWith('@')) {
      this.stage = line.slice(1) as LaunchStage;
    } else if (line.startsWith('{') && this.#json(line)) {
      return;
    } else if (line.length > 0 && this.#kept < MAX_TEXT_BYTES) {
      this.#kept += line.length;
      this.#messages.push(line);
    }
  }

  #json(line: string): boolean {
    try {
      const report = JSON.parse(line) as Record<string, unknown>;
      if (typeof report['child-pid'] === 'number') this.initPid = report['child-pid'];
      if (typeof report['exit-code'] === 'number') this.exitCode = report['exit-code'];
      return true;
    } catch {
      return false; // not bubblewrap's: keep it as a message
    }
  }
}
