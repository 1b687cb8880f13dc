// The runs of this machine: each claimed job has exactly one, from launch until its row is closed or it is let go.
import { setTimeout as sleep } from 'node:timers/promises';
import type { CancelCause } from '../db/job-types.ts';
import { type JobRow, readJob } from '../db/jobs.ts';
import type { AttemptInfo } from '../spawner/wire.ts';
import { findResumptions } from './reconcile.ts';
import { Detached, Run } from './run.ts';
import type { Accepted, RunDeps } from './run-deps.ts';

const RESUME_RETRY_MS = 2_000;

export class RunTable {
  readonly #deps: RunDeps;
  readonly #node: string;
  readonly #onFree: () => void;
  readonly #runs = new Map<string, Run>();
  readonly #lives = new Set<Promise<void>>();
  readonly #stop = new AbortController();

  /** `onFree` is called whenever a place has become free. */
  constructor(deps: RunDeps, node: string, onFree: () => void) {
    this.#deps = deps;
    this.#node = node;
    this.#onFree = onFree;
  }

  get size(): number {
    return this.#runs.size;
  }

  has(jobId: string): boolean {
    return this.#runs.has(jobId);
  }

  /** Takes a job up; `accepted` null: its attempt is to be started. A job that is there already is left alone. */
  launch(row: JobRow, accepted: Accepted | null, info?: AttemptInfo): void {
    if (this.#runs.has(row.jobId)) return;
    const run = new Run(this.#deps, row);
    this.#runs.set(row.jobId, run);
    if (info?.state === 'running') run.running(info.attempt);
    const life = run.live(accepted).then(
      () => this.#free(row.jobId),
      (error: unknown) => this.#failed(run, error),
    );
    this.#lives.add(life);
    void life.finally(() => this.#lives.delete(life));
  }

  /** False: the job does not run here. */
  cancel(jobId: string, cause: CancelCause): boolean {
    this.#runs.get(jobId)?.cancel(cause);
    return this.#runs.has(jobId);
  }

  running(jobId: string, attempt: number): void {
    this.#runs.get(jobId)?.running(attempt);
  }

  disconnected(): void {
    for (const run of this.#runs.values()) run.disconnected();
  }

  /** The spawner's list on a new connection. */
  listed(attempts: readonly AttemptInfo[]): void {
    for (const run of this.#runs.values()) {
      const { jobId, attempt } = run.row;
      run.listed(attempts.find((one) => one.jobId === jobId && one.attempt === attempt));
    }
  }

  /** Lets go of all: they run on and are found again by the next start. */
  async detachAll(): Promise<void> {
    this.#stop.abort();
    for (const run of this.#runs.values()) run.detach();
    await Promise.all(this.#lives);
  }

  #free(jobId: string): void {
    this.#runs.delete(jobId);
    this.#onFree();
  }

  async #failed(run: Run, error: unknown): Promise<void> {
    const { jobId } = run.row;
    if (!(error instanceof Detached) && !this.#stop.signal.aborted) {
      // Our own fault. The job must not hang for it: it is taken up again as after a restart.
      this.#deps.log.error({ err: error, jobId }, 'a run failed unexpectedly; taken up again');
      run.detach();
      await this.#relaunch(jobId);
    } else this.#free(jobId);
  }

  async #relaunch(jobId: string): Promise<void> {
    const { signal } = this.#stop;
    for (;;) {
      await sleep(RESUME_RETRY_MS, undefined, { signal }).catch(() => {}); // aborted: looked at next
      if (signal.aborted) return;
      try {
        const found = (await findResumptions(this.#deps, this.#node)).find(({ row }) => row.jobId === jobId);
        const ended = found === undefined && (await readJob(this.#deps.pool, jobId))?.state === 'ended';
        if (found === undefined && !ended) continue;
        this.#free(jobId);
        if (found !== undefined) this.launch(found.row, found.accepted, found.info);
        return;
      } catch (error) {
        this.#deps.log.warn({ err: error, jobId }, 'a run cannot be taken up yet');
      }
    }
  }
}
