// Builds one launch from its parts and starts the launcher with its eight descriptors.
import { type ChildProcess, spawn } from 'node:child_process';
import { closeSync, constants, openSync } from 'node:fs';
import type { Socket } from 'node:net';
import type { Account } from './accounts.ts';
import type { LauncherOptions, LaunchSpec } from './launch.ts';
import { LAUNCH_FD, launcherArgv, sandboxedArgv } from './launch-script.ts';
import { INSIDE, sandboxArgs } from './sandbox-args.ts';

const SCRATCH_BYTES = 256 * 1024 * 1024;
const SCRATCH_INODES = 65536;
/** The launcher's own environment; the program's is made by bubblewrap. */
const LAUNCHER_ENV = { PATH: '/usr/sbin:/usr/bin:/sbin:/bin', LC_ALL: 'C' };

/** Largest uid; the number after it means "leave as it is" to setresuid. */
const MAX_ID = 0xfffffffe;

/** Nothing but a user of its own may run: 0 and -1 would both leave a program root. */
function checkAccount({ uid, gid }: Account): void {
  if ([uid, gid].every((id) => Number.isInteger(id) && id > 0 && id <= MAX_ID)) return;
  throw Object.assign(new Error(`uid ${uid}, gid ${gid} is no account for a program`), { code: 'EINVAL' });
}

/** With SIGUSR1 a tool could open the debugger of its own agent, and then speak as the agent. */
function withoutDebugger([program = '', ...rest]: readonly string[]): string[] {
  return program === INSIDE.node ? [program, '--disable-sigusr1', ...rest] : [program, ...rest];
}

/** The launcher's argv and bubblewrap's options for one job. */
function commandOf(
  options: LauncherOptions,
  spec: LaunchSpec,
  etcDir: string,
): { argv: string[]; args: string[] } {
  const { privileged, system, cgroupNamespace, runtime } = options;
  const { account, call, engine, runDir, workspaceDir, network } = spec;
  if (privileged) checkAccount(account);
  const files = runtime.engines.get(engine.name);
  if (files === undefined) throw new Error(`engine ${engine.name} has no runtime files`);
  if (engine.kind === 'djinn' && files.worker === null)
    throw new Error('the worker is not built: npm run build');
  const scratchBytes = spec.scratchBytes ?? SCRATCH_BYTES;
  const args = sandboxArgs({
    ...{ account, privileged, system, cgroupNamespace, runDir, workspaceDir, network, scratchBytes },
    readOnly: spec.readOnly ?? false,
    engine: files,
    etcDir,
    tools: call === null ? null : { procs: call.toolsProcs, events: call.toolsEvents },
    dieWithParent: call === null,
  });
  const outer = {
    agentProcs: call?.agentProcs ?? null,
    scratchDir: privileged ? `${runDir}/fs` : null,
    scratchBytes,
    scratchInodes: spec.scratchInodes ?? SCRATCH_INODES,
    uid: account.uid,
    gid: account.gid,
    seccompFile: runtime.seccomp,
  };
  const sandboxed = sandboxedArgv(withoutDebugger(engine.argv), privileged ? account : null);
  return { argv: launcherArgv(outer, sandboxed, privileged), args };
}

/** Starts the launcher. Throws what the system says when that is impossible. */
export function startLauncher(options: LauncherOptions, spec: LaunchSpec, etcDir: string): ChildProcess {
  const { argv, args } = commandOf(options, spec, etcDir);
  const session = openSync(spec.sessionFile, constants.O_RDONLY | constants.O_NOFOLLOW);
  try {
    const [file = '', ...rest] = argv;
    const child = spawn(file, rest, {
      stdio: ['pipe', 'pipe', 'pipe', 'pipe', session, 'pipe', 'pipe', 'pipe'],
      cwd: '/',
      env: LAUNCHER_ENV,
    });
    child.on('error', () => {}); // the launch's own listener reports it
    // Out of descriptors, Node gives a process without stdio.
    if (child.stdio === undefined) throw Object.assign(new Error('too many open files'), { code: 'EMFILE' });
    const input = (child.stdio as readonly unknown[])[LAUNCH_FD.args] as Socket | undefined;
    input?.on('error', () => {}); // the launcher died first: its end says why
    input?.end(`${args.join('\0')}\0`);
    return child;
  } finally {
    closeSync(session);
  }
}
