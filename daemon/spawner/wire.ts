// The messages between djinnd and the spawner: newline-framed JSON over one unix socket.
// Types only; request.ts checks what arrives. djinnd may import this file and client.ts, nothing else of spawner/.
import type { ControlReport, ProbeReport } from '../../cgroups/types.ts';

/** Limits of one job as djinnd asks for them; the spawner clamps them to its own ceilings. */
export interface JobLimits {
  memoryBytes: number;
  pids: number;
  cpuPercent: number;
  wallMs: number;
  outputBytes: number;
  diskBytes: number;
}

/** Totals of the tenant's slice. */
export interface TenantTotals {
  memoryBytes?: number;
  pids?: number;
  cpuPercent?: number;
}

export type Network = 'none' | 'host';

/** What the engine gets to read, beyond what the spawner itself adds to the job line. */
export interface JobPayload {
  prompt: string;
  images?: { mediaType: string; data: string }[];
  systemPrompt?: string;
  models: { id: string; inputLimit?: number; outputLimit?: number }[];
  tools?: { allow?: string[]; deny?: string[] };
  sandboxMode?: 'workspace-write' | 'read-only';
}

export interface StartParams {
  jobId: string;
  /** 1 for the first try. */
  attempt: number;
  /** True: a lost attempt ends the job instead of asking for another. */
  lastAttempt: boolean;
  /** Why this attempt is not the first: written as `job {state:"retrying", reason}`. Required when attempt > 1. */
  retryReason?: 'lost';
  tenantId: string;
  sessionId: string;
  engine: string;
  limits: JobLimits;
  totals: TenantTotals;
  network: Network;
  payload: JobPayload;
}

export interface StartResult {
  /** The directory in which djinnd listens on `model.sock` before it sends `go`. */
  gatewayDir: string;
}

export interface AttemptRef {
  jobId: string;
  attempt: number;
}

/** Why djinnd ends an attempt. */
export type CancelCause = 'cancelled' | 'budget' | 'gateway';

export type AttemptState = 'waiting' | 'running' | 'ending';

export interface AttemptInfo extends AttemptRef {
  tenantId: string;
  sessionId: string;
  engine: string;
  /** `waiting`: accepted, `go` not yet received. */
  state: AttemptState;
  gatewayDir: string;
  startedAt: string;
}

/** Everything `/readyz`, doctor and `end` say about enforcement. */
export type SandboxControl = 'uid' | 'namespaces' | 'network' | 'seccomp' | 'disk';
export type EnforcementReport = {
  mode: 'strict' | 'best-effort';
  /** True when strict mode would refuse every job; `reason` says why. */
  refused: boolean;
  reason?: string;
  hierarchy: ProbeReport['hierarchy'];
  kernel: string;
  controls: Record<string, ControlReport>;
};

export interface HelloResult {
  version: string;
  engines: { name: string; kind: 'djinn' | 'command' }[];
  enforcement: EnforcementReport;
}

/** Requests and their answers. */
export interface Methods {
  hello: { params: Record<string, never>; result: HelloResult };
  /** This connection is the djinnd of this spawner from now on. Refused as `controlled` while another one is. */
  control: { params: Record<string, never>; result: Record<string, never> };
  /** Answers once the attempt is on disk: from then on the spawner owns its `end`. */
  start: { params: StartParams; result: StartResult };
  /** The gateway listens: the job line is written to the program. Idempotent. */
  go: { params: AttemptRef; result: Record<string, never> };
  /** Idempotent; an attempt that has ended answers the same. `gateway`: djinnd cannot listen for this job's model requests. */
  cancel: { params: AttemptRef & { cause: CancelCause }; result: { known: boolean } };
  /** After an unanswered `start`: if the attempt is unknown it will be refused from now on. */
  forget: { params: AttemptRef; result: { known: boolean } };
  list: { params: Record<string, never>; result: { attempts: AttemptInfo[] } };
  /** Everything of the job is stored: its spool may go. Refused while an attempt runs. */
  prune: { params: { jobId: string }; result: { pruned: boolean } };
  /** Creates the tenant's system user when there is none. */
  tenant: { params: { tenantId: string }; result: { user: string; uid: number } };
}

export type Method = keyof Methods;

export interface WireRequest {
  id: number;
  method: Method;
  params: unknown;
}
/** Stable codes of refused requests. */
export type WireErrorCode =
  | 'bad_request'
  | 'unknown_engine'
  | 'unknown_attempt'
  | 'enforcement'
  | 'already_started'
  | 'session_busy'
  | 'forgotten'
  | 'draining'
  | 'controlled'
  | 'internal';
export type WireResponse =
  | { id: number; result: unknown }
  | { id: number; error: { code: WireErrorCode; message: string } };

/** Sent without being asked. `sealed`: the attempt's last line is on disk. */
export type WireNotice =
  | ({ notice: 'running' } & AttemptRef)
  | ({ notice: 'sealed'; last: 'end' | 'lost' } & AttemptRef);

/** Outcome of a job, first cause wins. */
export type Outcome =
  | 'ok'
  | 'failed'
  | 'cancelled'
  | 'timeout'
  | 'oom'
  | 'output_limit'
  | 'budget'
  | 'spawn_failed'
  | 'lost';
