// The life of one attempt: cgroup, program, streams, and whatever wants to end it early. The first stop wins.
// closing.ts takes it from the program's end to the sealed spool.
import type { Logger } from 'pino';
import type { CallGroup } from '../../cgroups/index.ts';
import { closeAttempt } from './closing.ts';
import { createEventLines, type EventLines } from './event-lines.ts';
import { insideSandbox, jobLine } from './job-line.ts';
import type { LaunchEnd, Launched } from './launch.ts';
import { watchLinger } from './linger.ts';
import { failure, type Stop } from './outcome.ts';
import { readProgram } from './program-output.ts';
import { startSampling } from './sampling.ts';
import { SpoolFailed } from './spool.ts';
import { createStderrLog, type StderrLog } from './stderr-log.ts';
import { type Activity, newActivity } from './streams.ts';
import type { AttemptInfo, AttemptState } from './wire.ts';
import type { Last, Order, World } from './world.ts';

const noop = (): void => {};

export class Attempt {
  readonly order: Order;
  readonly world: World;
  readonly log: Logger;
  readonly lines: EventLines;
  readonly stderr: StderrLog;
  readonly activity: Activity = newActivity();
  /** Resolves when the last line is on disk. Never rejects. */
  readonly sealed: Promise<Last>;
  call: CallGroup | null = null;
  launched: Launched | null = null;
  /** The first stop; none is taken once the program has ended. */
  stopped: Stop | null = null;
  outputBytes: () => number = () => 0;
  readers: Promise<unknown> = Promise.resolve();
  readonly #timers: NodeJS.Timeout[] = [];
  #state: AttemptState = 'waiting';
  #going = false;
  #running = false;
  #killing = false;
  #over = false;

  constructor(order: Order, world: World) {
    const { jobId, attempt, tenantId } = order.params;
    this.order = order;
    this.world = world;
    this.log = world.log.child({ tenantId, jobId, attempt });
    this.lines = createEventLines({ jobId, attempt });
    this.stderr = createStderrLog(this.log);
    this.sealed = this.#live();
  }

  get info(): AttemptInfo {
    const { params, gatewayDir, startedAt } = this.order;
    const { jobId, attempt, tenantId, sessionId, engine } = params;
    return { jobId, attempt, tenantId, sessionId, engine, state: this.#state, gatewayDir, startedAt };
  }

  /** The gateway listens: the program gets its job. Idempotent. */
  go(): void {
    if (this.#going) return;
    this.#going = true;
    this.#giveJob();
  }

  /** Ends the attempt early. Only the first stop counts; after the program's end none does. */
  stop(stop: Stop): void {
    if (this.stopped !== null || this.#over) return;
    this.stopped = stop;
    this.log.info({ outcome: stop.outcome, cause: stop.cause.code }, 'attempt stops');
    this.#applyStop();
  }

  /** A stop that the spawner met by itself. Counts after the program's end too, while its last output is stored. */
  fail(stop: Stop): void {
    if (this.#over) this.stopped ??= stop;
    else this.stop(stop);
  }

  /** Appends a line of the spawner's own. */
  write(fields: { type: string } & Record<string, unknown>): Promise<void> {
    return this.append(this.lines.own(fields));
  }

  /** Appends whole lines. When there is no room the job ends as failed; what does not fit is not there. */
  async append(lines: Buffer): Promise<void> {
    try {
      await this.order.spool.append(lines, this.lines.seq);
    } catch (error) {
      const errno = error instanceof SpoolFailed ? error.errno : 'EUNKNOWN';
      this.fail(failure('spool_full', `events cannot be stored: ${errno}`, errno));
    }
  }

  async #live(): Promise<Last> {
    const { limits, attempt, retryReason } = this.order.params;
    this.#timers.push(setTimeout(() => this.#timeOut(), limits.wallMs));
    if (attempt > 1) void this.write({ type: 'job', state: 'retrying', reason: retryReason });
    void this.write({ type: 'job', state: 'starting' });
    let end: LaunchEnd | null = null;
    try {
      await this.#openCall();
      if (this.stopped === null) end = await this.#runProgram();
    } catch (error) {
      this.log.error({ err: error }, 'attempt failed');
      this.fail(failure('internal', 'the spawner failed to run the attempt'));
    }
    this.#over = true;
    this.#state = 'ending';
    for (const timer of this.#timers) clearTimeout(timer);
    return closeAttempt(this, end);
  }

  async #openCall(): Promise<void> {
    if (this.world.calls === null) return;
    try {
      this.call = await this.world.calls.open(this.order.params, this.order.account);
    } catch (error) {
      const { message, got } = error as Error & { got?: string };
      const errno = got ?? 'EUNKNOWN';
      this.stop({
        outcome: 'spawn_failed',
        cause: { code: 'spawn_failed', message, stage: 'limits', errno },
      });
    }
  }

  async #runProgram(): Promise<LaunchEnd> {
    const { params, engine, account, runDir, workspaceDir, sessionPath } = this.order;
    const launched = this.world.launch({
      ...{ jobId: params.jobId, attempt: params.attempt, engine, account, call: this.call },
      ...{ runDir, workspaceDir, sessionFile: sessionPath, network: params.network },
      readOnly: this.order.payload?.sandboxMode === 'read-only',
      scratchBytes: Math.floor(Math.min(params.limits.memoryBytes / 2, params.limits.diskBytes)),
    });
    this.launched = launched;
    // A program may be over before its readers are there. Node then lets streams flow into nothing, unless somebody
    // has asked to be told that there is something to read.
    for (const stream of [launched.stdout, launched.records]) stream.on('readable', noop);
    launched.stdin.on('error', noop); // the program did not read its job: its end says why
    launched.stderr.on('data', (chunk: Buffer) => this.stderr.push(chunk));
    if (this.stopped !== null) this.#applyStop();
    this.#giveJob();
    if (await launched.running) this.#onRunning(launched);
    return launched.ended;
  }

  #onRunning(launched: Launched): void {
    this.#running = true;
    if (this.#going && this.#state === 'waiting') this.#state = 'running';
    void this.write({ type: 'job', state: 'running' });
    const { jobId, attempt } = this.order.params;
    this.world.onRunning({ jobId, attempt });
    const output = readProgram(this, launched);
    this.outputBytes = output.bytes;
    this.readers = output.ended;
    const { world, call } = this;
    this.#timers.push(
      watchLinger(
        world.timing.lingerMs,
        () => this.lines.state.lastType === 'done' || this.lines.state.lastType === 'error',
        () => this.stop(failure('no_exit', 'the program wrote its last event and did not exit')),
      ),
    );
    if (world.calls !== null && call !== null) {
      const { calls, timing } = world;
      this.#timers.push(
        startSampling(
          timing.sampleMs,
          () => calls.usage(call),
          (line) => void this.write(line),
        ),
      );
    }
  }

  /** Writes the job line once there is both a program to read it and a gateway behind it. */
  #giveJob(): void {
    const { launched, order } = this;
    if (!this.#going || launched === null || order.payload === null) return;
    if (this.#running && this.#state === 'waiting') this.#state = 'running';
    const { session, workspace } = order;
    const resumed = session.lastSeq > 0 || workspace === 'existing';
    const around = { resumed, workspace, ...insideSandbox(this.call !== null) };
    launched.stdin.end(jobLine(order.params, order.payload, around));
    order.payload = null;
  }

  #timeOut(): void {
    const message = `the job took longer than ${this.order.params.limits.wallMs} ms`;
    this.stop({ outcome: 'timeout', cause: { code: 'wall_clock', message } });
  }

  /** TERM and, after the grace, KILL; a program that has no job yet has nothing to save. */
  #applyStop(): void {
    const { launched } = this;
    if (launched === null || this.#killing) return;
    this.#killing = true;
    if (!this.#running || !this.#going) return void this.#killUntilEnded(launched);
    launched.terminate();
    this.#timers.push(setTimeout(() => void this.#killUntilEnded(launched), this.world.timing.graceMs));
  }

  /** Again and again: a launcher that has not joined its cgroup yet is not hit by the first. */
  async #killUntilEnded(launched: Launched): Promise<void> {
    const ended = launched.ended.then(() => true);
    for (let over = false; !over; ) {
      this.killTree();
      const again = new Promise<boolean>((resolve) => setTimeout(() => resolve(false), 50));
      over = await Promise.race([ended, again]);
    }
  }

  /** KILL to everything that the attempt started. */
  killTree(): void {
    try {
      if (this.world.calls !== null && this.call !== null) this.world.calls.kill(this.call);
    } catch (error) {
      this.log.error({ err: error }, 'the call cannot be killed');
    }
    this.launched?.killAll();
  }
}
