// The shapes that the jobs table stores as JSON or as names.

export type JobState = 'queued' | 'starting' | 'running' | 'ended';
export const JOB_STATES: readonly JobState[] = ['queued', 'starting', 'running', 'ended'];

export const OUTCOMES = [
  'ok',
  'failed',
  'cancelled',
  'timeout',
  'oom',
  'output_limit',
  'budget',
  'spawn_failed',
  'lost',
] as const;
export type Outcome = (typeof OUTCOMES)[number];

/** Why a job was asked to end. */
export type CancelCause = 'cancelled' | 'budget';

/** Limits of one job: bytes, processes, percent of one core, milliseconds. */
export interface JobLimits {
  memoryBytes: number;
  pids: number;
  cpuPercent: number;
  wallMs: number;
  outputBytes: number;
  diskBytes: number;
}

/** What the tenant allowed at the claim; holds for all attempts. */
export interface Grant {
  limits: JobLimits;
  /** Of the tenant's slice; absent is no total of its own. */
  totals: { memoryBytes?: number; pids?: number; cpuPercent?: number };
  network: 'none' | 'host';
}

/** What the caller asked to run, beside ids, model and limits. */
export interface StoredPayload {
  prompt: string;
  images?: { mediaType: string; data: string }[];
  systemPrompt?: string;
  tools?: { allow?: string[]; deny?: string[] };
  sandboxMode?: 'workspace-write' | 'read-only';
}
