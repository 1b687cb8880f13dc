// Turns what a launch left behind into its end. Pure.
import type { LaunchEnd } from './launch.ts';
import { EXEC_STARTS } from './launch-script.ts';
import { errnoInText, type LaunchStatus } from './launch-status.ts';

export interface LaunchTraces {
  status: LaunchStatus;
  /** Text of the `exec` descriptor: the mark alone when the program was started, the shell's code after it when not. */
  execText: string;
  /** How the launcher's own process ended. */
  signal: string | null;
  /** True when the sandbox was killed on purpose. */
  wasKilled: boolean;
}

function failed(stage: string, errno: string, message: string): LaunchEnd {
  return { kind: 'spawn_failed', stage, errno, message };
}

/** The end of a launch whose first process could not be started. */
export function launcherFailed(error: unknown): LaunchEnd {
  const { code, message } = error as NodeJS.ErrnoException;
  return { kind: 'spawn_failed', stage: 'launcher', errno: code ?? 'EUNKNOWN', message };
}

/**
 * Tells how a launch ended. Only bubblewrap's report counts as the program's exit code: without one there is none,
 * so that nothing is a success by default.
 */
export function endOf({ status, execText, signal, wasKilled }: LaunchTraces): LaunchEnd {
  if (signal !== null) return { kind: 'exited', code: null, signal };
  const [mark, execCode] = execText.split('\n');
  if (mark === EXEC_STARTS && !execCode) return { kind: 'exited', code: status.exitCode, signal: null };
  if (mark === EXEC_STARTS) {
    const errno = execCode === '127' ? 'ENOENT' : 'EACCES';
    return failed('exec', errno, `the engine's program cannot be started: ${errno}`);
  }
  if (wasKilled) return { kind: 'exited', code: null, signal: 'SIGKILL' };
  if (status.exitCode !== null && status.exitCode > 128) {
    return { kind: 'exited', code: status.exitCode, signal: null };
  }
  const stage = status.exitCode === null ? status.stage : 'user';
  return failed(stage, errnoInText(status.message), status.message);
}
