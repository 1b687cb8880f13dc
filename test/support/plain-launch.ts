// A launcher without a sandbox, with the seam of the real one: the program runs as this user, in the call's cgroup
// when there is one.
import { type ChildProcessWithoutNullStreams, spawn } from 'node:child_process';
import { closeSync, openSync } from 'node:fs';
import { rm } from 'node:fs/promises';
import type { Socket } from 'node:net';
import type { Launch, LaunchEnd } from '../../daemon/spawner/launch.ts';

const JOIN = 'echo 0 >"$1" || exit 126; shift; exec "$@"';

/** Launches `engine.argv` in the workspace. */
export const plainLaunch: Launch = (spec) => {
  const session = openSync(spec.sessionFile, 'r');
  const { argv } = spec.engine;
  const command = spec.call === null ? argv : ['/bin/sh', '-c', JOIN, 'join', spec.call.agentProcs, ...argv];
  const child = spawn(command[0] ?? '', command.slice(1), {
    stdio: ['pipe', 'pipe', 'pipe', 'pipe', session],
    cwd: spec.workspaceDir,
    env: { PATH: process.env.PATH ?? '' },
    detached: true,
  }) as ChildProcessWithoutNullStreams;
  closeSync(session);
  const records = child.stdio[3] as unknown as Socket;
  for (const stream of [child.stdin, child.stdout, child.stderr, records]) stream.on('error', () => {});
  const running = new Promise<boolean>((resolve) => {
    child.once('spawn', () => resolve(true));
    child.once('error', () => resolve(false));
  });
  const ended = new Promise<LaunchEnd>((resolve) => {
    child.once('exit', (code, signal) => resolve({ kind: 'exited', code, signal }));
    child.once('error', (error: NodeJS.ErrnoException) =>
      resolve({
        kind: 'spawn_failed',
        stage: 'exec',
        errno: error.code ?? 'EUNKNOWN',
        message: error.message,
      }),
    );
  });
  const signalGroup = (signal: NodeJS.Signals): void => {
    if (child.pid === undefined) return;
    try {
      process.kill(-child.pid, signal);
    } catch {
      // The group is gone.
    }
  };
  return {
    stdin: child.stdin,
    stdout: child.stdout,
    stderr: child.stderr,
    records,
    running,
    ended,
    programPid: () => child.pid ?? null,
    terminate: () => void child.kill('SIGTERM'),
    killAll: () => signalGroup('SIGKILL'),
    close: async () => {
      await rm(spec.runDir, { recursive: true, force: true });
      return [];
    },
  };
};
