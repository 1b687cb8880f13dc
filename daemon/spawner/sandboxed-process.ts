// One launch from its start to its end: the launcher's process, then bubblewrap's in the same pid, and its descriptors.
import type { ChildProcess } from 'node:child_process';
import type { Duplex, Readable, Writable } from 'node:stream';
import { removeRunDirectory } from './job-directories.ts';
import type { LaunchEnd, Launched } from './launch.ts';
import { endOf, launcherFailed } from './launch-end.ts';
import { EXEC_STARTS, LAUNCH_FD } from './launch-script.ts';
import { LaunchStatus } from './launch-status.ts';
import { findProgramPid, signalProcess, startTimeOf, waitGone } from './program-process.ts';

/** A killed launcher may leave its descriptors open in a sandbox that is just being killed. */
const STATUS_GRACE_MS = 1000;
/** What a program leaves running has this long to end by itself: bubblewrap's init waits for it, for ever. */
const LEFT_MS = 250;
/** Everything in a sandbox is killed with it; this is for processes that the kernel cannot end at once. */
const GONE_MS = 5000;

const ignoreError = (): void => {}; // EPIPE and the like: 'close' and the process's end follow

function textOf(stream: Readable, onText: (text: string) => void): Promise<unknown> {
  stream.setEncoding('utf8').on('data', onText).on('error', ignoreError);
  return new Promise((resolve) => stream.once('close', resolve));
}

/** Owns the launcher; `ended` resolves when every process of the sandbox is gone. */
export class SandboxedProcess implements Launched {
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
  #initStarted: string | null = null;
  /** Bubblewrap has reported the program's exit code. */
  readonly #codeTold: Promise<void>;
  #tellCode: () => void = ignoreError;
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
    this.#codeTold = new Promise((resolve) => {
      this.#tellCode = resolve;
    });
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
    // The monitor alone was hit, and its sandbox must not outlive it; or the program was told to end and has ended:
    // what it leaves had the same time.
    if (first.signal !== null || this.#wantsTerminate) this.killAll();
    const grace = new Promise((resolve) => setTimeout(resolve, STATUS_GRACE_MS).unref());
    // What the program leaves running holds the status open, too.
    const told = Promise.race([statusClosed, this.#codeTold]);
    await Promise.race([Promise.all([told, execClosed]), grace]);
    await this.#namespaceGone();
    this.#isOver = true;
    const traces = { status: this.#status, execText: this.#execText, wasKilled: this.#wantsKill };
    return endOf({ ...traces, signal: first.signal });
  }

  async #namespaceGone(): Promise<void> {
    const { initPid } = this.#status;
    if (initPid === null || this.#initStarted === null) return;
    if (await waitGone(initPid, this.#initStarted, LEFT_MS)) return;
    this.killAll();
    await waitGone(initPid, this.#initStarted, GONE_MS);
  }

  #onStatus(text: string): void {
    const known = this.#status.initPid;
    this.#status.push(text);
    if (this.#status.exitCode !== null) this.#tellCode();
    if (known === null && this.#status.initPid !== null)
      this.#initStarted = startTimeOf(this.#status.initPid);
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
    if (initPid !== null && startTimeOf(initPid) === this.#initStarted) signalProcess(initPid, 'SIGKILL');
  }

  async close(): Promise<string[]> {
    return removeRunDirectory(this.#runDir);
  }
}
