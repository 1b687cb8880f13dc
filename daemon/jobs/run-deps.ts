// What a run works with, made once by createJobs, and what its parts may ask of the run itself.
import type { CancelCause } from '../db/job-types.ts';
import type { JobRow } from '../db/jobs.ts';
import type { Pool } from '../db/pool.ts';
import type { Boss } from '../db/queue.ts';
import type { Logger } from '../log.ts';
import type { SpawnerClient } from '../spawner/client.ts';
import type { GatewaySeam } from './gateway-seam.ts';
import type { JobSignals } from './signals.ts';
import type { JobsDeps, JobsMetrics } from './types.ts';
import type { UntilDone } from './until-done.ts';

export interface RunDeps {
  /** Tells this daemon from every other one, also from an earlier life. */
  self: string;
  pool: Pool;
  boss: Boss;
  spawner: SpawnerClient;
  gateway: GatewaySeam;
  log: Logger;
  stateDir: string;
  model: JobsDeps['model'];
  metrics: JobsMetrics;
  signals: JobSignals;
  untilDone: UntilDone;
}

/** A lost attempt is followed by one more; that one's loss ends the job. */
export const LAST_ATTEMPT = 2;

export interface RunHandle {
  /** As of the claim, with `attempt` and `cancelCause` kept up to date. */
  readonly row: JobRow;
  /** Aborted when the run is let go. */
  readonly signal: AbortSignal;
  /** Grows with each loss of the spawner's connection: what was told before may have been lost. */
  readonly losses: number;
  cancel(cause: CancelCause): void;
  /** Resolves when there is something new to tell the spawner, after `timeoutMs`, or when `signal` is aborted. */
  poked(timeoutMs: number, signal: AbortSignal): Promise<void>;
}

/** The spawner has the attempt. `gatewayDir` null: it is over already, only its spool is left. */
export interface Accepted {
  gatewayDir: string | null;
}
