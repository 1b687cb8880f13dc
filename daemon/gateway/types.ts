// What the gateway is given and what it tells: the upstream, its limits, the hooks for usage and budget.
import type { Logger } from 'pino';

export interface GatewayJob {
  jobId: string;
  attempt: number;
  tenantId: string;
  /** Made by the spawner; the gateway listens on `model.sock` in it. */
  gatewayDir: string;
  /** The models that this job may use, the primary first. */
  models: string[];
}

/** `https://host/v1`, `http://host/v1` or `unix:/path/to.sock:/v1`, and the provider's key. */
export interface Upstream {
  baseUrl: string;
  apiKey: string | null;
}

export interface TokenCount {
  inputTokens: number;
  outputTokens: number;
}

export interface Spent extends TokenCount {
  tenantId: string;
  model: string;
  /** True when the provider gave no figure and the reservation is charged instead. */
  estimated: boolean;
}

export type GatewayResult = '2xx' | '3xx' | '4xx' | '5xx' | 'refused' | 'unreachable' | 'aborted';

export interface GatewayLimits {
  /** Most bytes of one request. */
  bodyBytes: number;
  /** Most bytes of request bodies held at a time, for one job and for all. */
  jobBodyBytes: number;
  allBodyBytes: number;
  /** Requests of one job at a time. */
  concurrent: number;
  /** Most tokens of one answer; null leaves it to the request. */
  outputTokens: number | null;
  /** The member that carries `outputTokens` when the request names none. */
  outputMember: 'max_tokens' | 'max_completion_tokens';
  connectMs: number;
  /** Longest silence of the upstream, before and within its answer. */
  silenceMs: number;
}

export interface GatewayDeps {
  /** Where requests for a model go; null refuses the model although the job names it. */
  upstreamFor(model: string): Upstream | null;
  /** Tokens that the tenant has left this month; null: no cap. */
  budget(tenantId: string): Promise<number | null> | number | null;
  /** Called once per answered request; awaited before its reservation is given back. */
  onUsage(jobId: string, spent: Spent): Promise<void> | void;
  /** A request was refused because nothing is left. */
  onBudgetSpent(jobId: string): void;
  metrics: {
    gatewayRequest(result: GatewayResult): void;
    gatewayTokens(count: TokenCount): void;
  };
  log: Logger;
  limits?: Partial<GatewayLimits>;
}

export const DEFAULT_LIMITS: GatewayLimits = {
  bodyBytes: 32 * 1024 * 1024,
  jobBodyBytes: 64 * 1024 * 1024,
  allBodyBytes: 512 * 1024 * 1024,
  concurrent: 8,
  outputTokens: null,
  outputMember: 'max_tokens',
  connectMs: 15_000,
  silenceMs: 30 * 60_000,
};
