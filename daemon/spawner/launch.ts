// Starts one engine program in its sandbox and reports how it ended. Owns the launcher's process and descriptors;
// never opens anything below the workspace.
import type { ChildProcess } from 'node:child_process';
import { type Duplex, PassThrough, type Readable, type Writable } from 'node:stream';
import type { Account } from './accounts.ts';
import { closeInheritedDescriptors } from './descriptors.ts';
import type { EngineDefinition } from './engines.ts';
import { removeRunDirectory } from './job-directories.ts';
import { startLauncher } from './launch-command.ts';
import { endOf } from './launch-end.ts';
import { EXEC_STARTS, LAUNCH_FD } from './launch-script.ts';
import { LaunchStatus } from './launch-status.ts';
import { findProgramPid, signalProcess } from './program-process.ts';
import type { RuntimeFiles } from './runtime-files.ts';
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

/** A killed launcher may leave its descriptors open in a sandbox that is just being killed. */
const STATUS_GRACE_MS = 1000;

const ignoreError = (): void => {}; // EPIPE and the like: 'close' and the process's end follow

function textOf(stream: Readable, onText: (text: string) => void): Promise<unknown> {
  stream.setEncoding('utf8').on('data', onText).on('error', ignoreError);
  return new Promise((resolve) => stream.once('close', resolve));
}

/** One launch: the launcher's process, then bubblewrap's in the same pid. */
class Sandbox implements Launched {
  readonly stdin: Writable;
  readonly stdout: Readable;
  readonly stderr: Readable;
  readonly records: Duplex;
  readonly running: Promise<boolean>;
  readonly ended: Promise<LaunchEnd>;
  readonly #child: ChildProcess;
  readonly #runDir: string;
  readonly #status = new LaunchStatus();
  #execText = '';
  #isOver = false;
  #wantsTerminate = false;
  #wantsKill = false;

  constructor(child: ChildProcess, runDir: string) {
    this.#child = child;
    this.#runDir = runDir;
    const stream = (fd: number) => child.stdio[fd] as unknown as Duplex;
    this.stdin = stream(LAUNCH_FD.stdin);
    this.stdout = stream(LAUNCH_FD.stdout);
    this.stderr = stream(LAUNCH_FD.stderr);
    this.records = stream(LAUNCH_FD.records);
    for (const each of [this.stdin, this.stdout, this.stderr, this.records]) each.on('error', ignoreError);
    const statusClosed = textOf(stream(LAUNCH_FD.status), (text) => this.#onStatus(text));
    const execClosed = textOf(stream(LAUNCH_FD.exec), (text) => {
      this.#execText += text;
    });
    this.ended = this.#watchEnd(statusClosed, execClosed);
    this.running = this.#watchStart(execClosed);
  }

  async #watchStart(execClosed: Promise<unknown>): Promise<boolean> {
    await execClosed;
    const running = this.#execText === `${EXEC_STARTS}\n`;
    if (running && this.#wantsTerminate) this.terminate();
    return running;
  }

  async #watchEnd(statusClosed: Promise<unknown>, execClosed: Promise<unknown>): Promise<LaunchEnd> {
    const first = await new Promise<{ error?: NodeJS.ErrnoException; signal: string | null }>((resolve) => {
      this.#child.once('error', (error) => resolve({ error, signal: null }));
      this.#child.once('exit', (_code, signal) => resolve({ signal }));
    });
    if (first.error !== undefined) {
      this.#isOver = true;
      return launcherFailed(first.error);
    }
    if (first.signal !== null) this.killAll(); // the monitor alone was hit: its sandbox must not outlive it
    const grace = new Promise((resolve) => setTimeout(resolve, STATUS_GRACE_MS).unref());
    await Promise.race([Promise.all([statusClosed, execClosed]), grace]);
    this.#isOver = true;
    const traces = { status: this.#status, execText: this.#execText, wasKilled: this.#wantsKill };
    return endOf({ ...traces, signal: first.signal });
  }

  #onStatus(text: string): void {
    this.#status.push(text);
    if (this.#wantsKill && this.#status.initPid !== null) signalProcess(this.#status.initPid, 'SIGKILL');
  }

  programPid(): number | null {
    const { initPid } = this.#status;
    return this.#isOver || initPid === null ? null : findProgramPid(initPid);
  }

  terminate(): void {
    this.#wantsTerminate = true;
    const pid = this.#execText === `${EXEC_STARTS}\n` ? this.programPid() : null;
    if (pid !== null) signalProcess(pid, 'SIGTERM');
  }

  killAll(): void {
    if (this.#isOver) return;
    this.#wantsKill = true;
    const { initPid } = this.#status;
    // Until bubblewrap has named its namespace the launcher lives on for these few milliseconds: killed in between,
    // it would leave an init that waits for it for ever.
    if (initPid !== null) signalProcess(initPid, 'SIGKILL');
  }

  async close(): Promise<string[]> {
    return removeRunDirectory(this.#runDir);
  }
}

function launcherFailed(error: unknown): LaunchEnd {
  const { code, message } = error as NodeJS.ErrnoException;
  return { kind: 'spawn_failed', stage: 'launcher', errno: code ?? 'EUNKNOWN', message };
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
      return new Sandbox(startLauncher(options, spec, etcOf(spec.account)), spec.runDir);
    } catch (error) {
      return failedLaunch(error, spec.runDir);
    }
  };
}
