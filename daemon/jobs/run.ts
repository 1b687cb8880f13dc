// One job's life from claim to end: attempts at the spawner, gateway, storing the events, closing the row.
// Whatever fails, the job gets exactly one end; letting go (`detach`) changes nothing at all.
import { setTimeout as sleep } from 'node:timers/promises';
import { beginNextAttempt, markRunning } from '../db/job-changes.ts';
import type { CancelCause } from '../db/job-types.ts';
import type { JobRow } from '../db/jobs.ts';
import type { AttemptInfo } from '../spawner/wire.ts';
import { beginAttempt } from './begin-attempt.ts';
import { endByDjinnd, endBySpawner } from './end.ts';
import type { Closing } from './event-line.ts';
import { spoolPath } from './paths.ts';
import { shipRecords } from './record-shipper.ts';
import { type Accepted, LAST_ATTEMPT, type RunDeps, type RunHandle } from './run-deps.ts';
import { storeAttempt } from './segments-writer.ts';
import { steerAttempt } from './steer-attempt.ts';

const SHIP_MS = 5_000;

export class Run implements RunHandle {
  readonly row: JobRow;
  losses = 0;
  readonly #deps: RunDeps;
  readonly #stop = new AbortController();
  #poked = false;
  #wake: (() => void) | null = null;
  /** The spawner does not know the attempt: a spool that is not there will never be. */
  #unknown = false;
  #marked: Promise<void> = Promise.resolve();

  constructor(deps: RunDeps, row: JobRow) {
    this.#deps = deps;
    this.row = { ...row };
  }

  get signal(): AbortSignal {
    return this.#stop.signal;
  }

  /** Runs to the end, from the start (null) or from an attempt that the spawner has accepted. Rejects when detached. */
  async live(accepted: Accepted | null): Promise<void> {
    const { gateway, signals } = this.#deps;
    const { jobId } = this.row;
    for (let known = accepted; ; known = null) {
      const begun = known ?? (await beginAttempt(this.#deps, this));
      if (begun === null) return;
      signals.fire(jobId);
      const closing = await this.#watchAttempt(begun);
      await gateway.close(jobId);
      if (closing?.kind === 'end') return this.#close(closing);
      if (!(await this.#nextAttempt())) return;
    }
  }

  /** Lets go: the job runs on and is found again by the next start. */
  detach(): void {
    this.#stop.abort(new Detached());
  }

  /** Keeps the first wish; the spawner hears of it as soon as there is an attempt and a connection. */
  cancel(cause: CancelCause): void {
    this.row.cancelCause ??= cause;
    this.#poke();
  }

  /** The spawner's connection is gone. */
  disconnected(): void {
    this.losses += 1;
  }

  #poke(): void {
    this.#poked = true;
    this.#wake?.();
  }

  async poked(timeoutMs: number, signal: AbortSignal): Promise<void> {
    if (!this.#poked && !signal.aborted) {
      await new Promise<void>((resolve) => {
        const wake = (): void => {
          clearTimeout(timer);
          signal.removeEventListener('abort', wake);
          this.#wake = null;
          resolve();
        };
        const timer = setTimeout(wake, timeoutMs);
        signal.addEventListener('abort', wake);
        this.#wake = wake;
      });
    }
    this.#poked = false;
  }

  /** The spawner's word that the program exists. */
  running(attempt: number): void {
    if (attempt !== this.row.attempt || this.row.state === 'running') return;
    this.row.state = 'running';
    const { pool, untilDone } = this.#deps;
    // When detached meanwhile, whoever reconciles next sets it.
    this.#marked = untilDone(this.signal, () => markRunning(pool, this.row.jobId, attempt)).catch(() => {});
  }

  /** What the spawner's list says on a new connection; undefined: it does not know the attempt. */
  listed(info: AttemptInfo | undefined): void {
    this.#unknown = info === undefined;
    if (info?.state === 'running') this.running(info.attempt);
    this.#poke();
  }

  async #watchAttempt(begun: Accepted): Promise<Closing | null> {
    const { attempt, jobId } = this.row;
    this.#unknown = begun.gatewayDir === null;
    const over = new AbortController();
    const ended = AbortSignal.any([over.signal, this.signal]);
    const besides = [steerAttempt(this.#deps, this, begun, ended), this.#shipNowAndThen(ended)];
    try {
      return await storeAttempt(this.#deps, {
        jobId,
        attempt,
        path: spoolPath(this.#deps.stateDir, jobId, attempt),
        signal: this.signal,
        isGone: () => this.#unknown,
      });
    } finally {
      over.abort();
      await Promise.all(besides);
    }
  }

  async #shipNowAndThen(ended: AbortSignal): Promise<void> {
    const { pool, stateDir, log } = this.#deps;
    for (;;) {
      await sleep(SHIP_MS, undefined, { signal: ended }).catch(() => {});
      if (ended.aborted) return;
      // Tried again in a moment, and for good before the job ends.
      await shipRecords(pool, stateDir, this.row, log).catch((error: unknown) => {
        log.debug({ err: error, jobId: this.row.jobId }, 'session records are shipped later');
      });
    }
  }

  async #close(closing: Extract<Closing, { kind: 'end' }>): Promise<void> {
    const { untilDone, pool, stateDir, log, spawner, signals, metrics } = this.#deps;
    const { jobId } = this.row;
    await this.#marked;
    await untilDone(this.signal, () => shipRecords(pool, stateDir, this.row, log));
    const ended = await untilDone(this.signal, () => endBySpawner(this.#deps, jobId, closing));
    signals.fire(jobId);
    if (ended !== null) metrics.jobEnded?.(ended.outcome ?? 'failed', ended.engine);
    // What is not pruned now is found by the next start. Not waited for: the job's place is free.
    spawner
      .call('prune', { jobId })
      .catch((error: unknown) => log.debug({ err: error, jobId }, 'not pruned'));
  }

  /** False: the job has ended. */
  async #nextAttempt(): Promise<boolean> {
    const { untilDone, pool, metrics, signals } = this.#deps;
    const { jobId, attempt } = this.row;
    metrics.attemptLost?.();
    if (attempt >= LAST_ATTEMPT) {
      // Only when the spool has vanished: the spawner itself ends a last attempt.
      const cause = { code: 'spool_missing', message: 'the events of the last attempt are gone' };
      await untilDone(this.signal, () => endByDjinnd(this.#deps, this.row, 'lost', cause));
      metrics.jobEnded?.('lost', this.row.engine);
      signals.fire(jobId);
      return false;
    }
    if (!(await untilDone(this.signal, () => beginNextAttempt(pool, jobId, attempt)))) return false;
    Object.assign(this.row, { attempt: attempt + 1, state: 'starting' });
    return true;
  }
}

/** The reason of a run that was let go. */
export class Detached extends Error {}
