// The shapes that jobs take from and give to the HTTP side.

import type { JobLimits, JobState, Outcome } from '../db/job-types.ts';
import type { Pool } from '../db/pool.ts';
import type { Boss } from '../db/queue.ts';
import type { Logger } from '../log.ts';
import type { SpawnerClient } from '../spawner/client.ts';
import type { EnforcementReport, JobPayload } from '../spawner/wire.ts';
import type { GatewaySeam } from './gateway-seam.ts';

/** Who asks: the bearer key's rights. `tenantIds` is empty for an operator, who may see all. */
export interface Caller {
  keyId: string;
  role: 'caller' | 'tenant_admin' | 'platform' | 'operator';
  tenantIds: string[];
}

/** The checked body of `POST /v1/jobs`, its tenant resolved. */
export interface JobBody {
  tenantId: string;
  prompt: string;
  images?: JobPayload['images'];
  sessionId?: string;
  systemPrompt?: string;
  model?: string;
  tools?: { allow?: string[]; deny?: string[] };
  sandboxMode?: 'workspace-write' | 'read-only';
  limits?: Partial<JobLimits>;
  cancelOnDisconnect?: boolean;
  metadata?: Record<string, unknown>;
}

/** A job as HTTP shows it; times in RFC 3339. */
export interface JobView {
  jobId: string;
  tenantId: string;
  sessionId: string;
  state: JobState;
  outcome?: Outcome;
  engine?: string;
  /** 0 while queued. */
  attempt: number;
  createdAt: string;
  startedAt?: string;
  endedAt?: string;
  cause?: unknown;
  exit?: unknown;
  evidence?: unknown;
  resources?: unknown;
  enforcement?: unknown;
  metadata?: unknown;
}

export interface EventsOptions {
  /** The cursor of the last line that the reader has; absent: from the first line. */
  after?: string;
  /** Wait for more until the last line; otherwise the stream ends with what is there. */
  follow: boolean;
  signal: AbortSignal;
}

/** Counters that somebody may keep; all optional. */
export interface JobsMetrics {
  jobAdmitted?(): void;
  /** Milliseconds from admission to claim. */
  jobClaimed?(waitMs: number, engine: string): void;
  jobEnded?(outcome: Outcome, engine: string | null): void;
  attemptLost?(): void;
}

export interface JobsDeps {
  pool: Pool;
  boss: Boss;
  spawner: SpawnerClient;
  gateway: GatewaySeam;
  log: Logger;
  stateDir: string;
  /** Jobs that this machine runs at a time. */
  maxRunning: number;
  model: { name: string; inputLimit?: number; outputLimit?: number };
  /** This machine's name in the jobs table; the host name when absent. */
  node?: string;
  metrics?: JobsMetrics;
}

export interface Readiness {
  ready: boolean;
  /** One sentence each, empty when ready. */
  reasons: string[];
}

export interface Jobs {
  /** Resolves once reconciled with spawner and spools, which waits for both of them: do not hold up listening for it. */
  start(): Promise<void>;
  /** Stops dispatching and lets go of all jobs, which run on. */
  stop(graceMs: number): Promise<void>;
  /** Throws Problem: DJ_NOT_FOUND, DJ_LIMIT_TOO_HIGH, DJ_QUEUE_FULL, DJ_BUDGET_SPENT, DJ_IDEMPOTENCY_MISMATCH, … */
  admit(caller: Caller, body: JobBody, idempotencyKey?: string): Promise<{ job: JobView; created: boolean }>;
  /** Throws Problem DJ_NOT_FOUND, the same for another tenant's id. */
  get(caller: Caller, jobId: string): Promise<JobView>;
  list(
    caller: Caller,
    query: { limit: number; cursor?: string; state?: JobState },
  ): Promise<{ jobs: JobView[]; next: string | null }>;
  /** Idempotent; resolves once the request is recorded, which is before the job has ended when it runs. */
  cancel(caller: Caller, jobId: string): Promise<JobView>;
  /** Ends a running job for its tenant's budget; for the gateway. */
  cancelForBudget(jobId: string): Promise<void>;
  /** Whole LF-terminated lines, many to a buffer. Throws Problem DJ_NOT_FOUND or DJ_CURSOR_INVALID before the first byte. */
  events(caller: Caller, jobId: string, options: EventsOptions): Promise<AsyncIterable<Buffer>>;
  readiness(): Readiness;
  /** What the spawner last reported; null while it is away. */
  enforcement(): EnforcementReport | null;
  /** Jobs that this machine runs now. */
  running(): number;
  /** Jobs waiting on all machines (a moment ago) and running on this one. */
  counts(): { queued: number; running: number };
}
