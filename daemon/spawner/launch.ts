// The launcher's seam: starts one engine program in its sandbox and reports how it ended.
// Never opens anything below the workspace.
import { type Duplex, PassThrough, type Readable, type Writable } from 'node:stream';
import type { Account } from './accounts.ts';
import { closeInheritedDescriptors } from './descriptors.ts';
import type { EngineDefinition } from './engines.ts';
import { removeRunDirectory } from './job-directories.ts';
import { startLauncher } from './launch-command.ts';
import { launcherFailed } from './launch-end.ts';
import type { RuntimeFiles } from './runtime-files.ts';
import { SandboxedProcess } from './sandboxed-process.ts';
import { etcMaker, type SystemView } from './system-view.ts';

/** The files of a call's cgroup that a launch needs; a `CallGroup` of cgroups/ is one. */
export interface CallFiles {
  agentProcs: string;
  toolsProcs: string;
  toolsEvents: string;
}

export interface LaunchSpec {
  jobId: string;
  attempt: number;
  engine: EngineDefinition;
  account: Account;
  /** Null: this machine has no cgroups for calls. */
  call: CallFiles | null;
  /** The job's run directory, with `gw/` in it. */
  runDir: string;
  workspaceDir: string;
  /** Opened read-only for descriptor 4. */
  sessionFile: string;
  network: 'none' | 'host';
  /** The workspace is shown read-only. */
  readOnly?: boolean;
  /** Size of /tmp, /dev/shm and the home together. They are memory: keep it below the call's. */
  scratchBytes?: number;
  scratchInodes?: number;
}

export type LaunchEnd =
  /** `code` is 128 + N when signal N ended the program; `signal` is set when the whole sandbox was killed from outside. */
  | { kind: 'exited'; code: number | null; signal: string | null }
  | { kind: 'spawn_failed'; stage: string; errno: string; message: string };

export interface Launched {
  stdin: Writable;
  stdout: Readable;
  stderr: Readable;
  records: Duplex;
  /** True once the program's process exists, false when it never will. */
  running: Promise<boolean>;
  ended: Promise<LaunchEnd>;
  /** Pid of the program while it runs. */
  programPid(): number | null;
  /** TERM to the program itself, as soon as it exists. */
  terminate(): void;
  /** KILL to the pid namespace. */
  killAll(): void;
  /** Removes the run directory; only after the end. Answers what could not be removed. */
  close(): Promise<string[]>;
}
export type Launch = (spec: LaunchSpec) => Launched;

export interface LauncherOptions {
  runtime: RuntimeFiles;
  system: SystemView;
  /** True as root: real tenant users, no user namespace. */
  privileged: boolean;
  /** False where cgroup2 is mounted with `nsdelegate`. */
  cgroupNamespace: boolean;
}

function failedLaunch(error: unknown, runDir: string): Launched {
  const nothing = new PassThrough();
  nothing.destroy();
  return {
    ...{ stdin: nothing, stdout: nothing, stderr: nothing, records: nothing },
    running: Promise.resolve(false),
    ended: Promise.resolve(launcherFailed(error)),
    programPid: () => null,
    terminate: () => {},
    killAll: () => {},
    close: async () => removeRunDirectory(runDir),
  };
}

/** Makes the function that launches. It never throws: a launch that cannot begin ends as `spawn_failed`. */
export function createLaunch(options: LauncherOptions): Launch {
  closeInheritedDescriptors();
  const etcOf = etcMaker(options.runtime.dir, options.system);
  return (spec) => {
    try {
      return new SandboxedProcess(startLauncher(options, spec, etcOf(spec.account)), spec.runDir);
    } catch (error) {
      return failedLaunch(error, spec.runDir);
    }
  };
}
