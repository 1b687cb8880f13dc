// What the HTTP side needs from the rest of the daemon, as interfaces: it never reaches into jobs, db or spawner itself.
import type { Logger } from 'pino';
import type { EnforcementReport } from '../spawner/wire.ts';
import type { JobBody, JobView } from './schemas/job.ts';
import type { KeyBody, KeyView, NewKey, TenantBody, TenantChange, TenantView } from './schemas/tenant.ts';

export type Role = 'caller' | 'tenant_admin' | 'platform' | 'operator';

/** Who asks. `tenantIds` are those the key acts for; an operator's list is empty and means all. */
export interface Caller {
  keyId: string;
  role: Role;
  tenantIds: string[];
}

/** A key as stored: never the secret, only its SHA-256. */
export interface StoredKey extends Caller {
  sha256: Buffer;
}

export type AdmittedBody = JobBody & { tenantId: string };

export interface EventsOptions {
  /** Cursor `<attempt>-<seq>`: lines after it only. */
  after?: string;
  follow: boolean;
  signal: AbortSignal;
}

export interface Jobs {
  admit(
    caller: Caller,
    body: AdmittedBody,
    idempotencyKey?: string,
  ): Promise<{ job: JobView; created: boolean }>;
  get(caller: Caller, jobId: string): Promise<JobView>;
  list(
    caller: Caller,
    page: { limit: number; cursor?: string; state?: JobView['state'] },
  ): Promise<{ jobs: JobView[]; next: string | null }>;
  cancel(caller: Caller, jobId: string): Promise<JobView>;
  /**
   * Whole LF-terminated lines, many to a buffer, produced only when asked for. Throws Problem before the first byte;
   * ends early, without a line `end`, when the signal fires.
   */
  events(caller: Caller, jobId: string, options: EventsOptions): Promise<AsyncIterable<Buffer>>;
  readiness(): { ready: boolean; reasons: string[] };
}

export interface Keys {
  /** The key with this SHA-256, if it is known and neither revoked nor expired. */
  find(sha256: Buffer): Promise<StoredKey | null>;
  /** Throws Problem DJ_NOT_FOUND for an unknown tenant. */
  create(caller: Caller, tenantId: string, body: KeyBody): Promise<NewKey>;
  list(caller: Caller, tenantId: string): Promise<KeyView[]>;
  /** Idempotent; throws Problem DJ_NOT_FOUND for a key that was never this tenant's. */
  revoke(caller: Caller, tenantId: string, keyId: string): Promise<void>;
}

export interface Tenants {
  create(caller: Caller, body: TenantBody): Promise<TenantView>;
  list(
    caller: Caller,
    page: { limit: number; cursor?: string },
  ): Promise<{ tenants: TenantView[]; next: string | null }>;
  get(caller: Caller, tenantId: string): Promise<TenantView>;
  change(caller: Caller, tenantId: string, change: TenantChange): Promise<TenantView>;
}

/** Counts of the HTTP side; `route` is always a pattern or one fixed word, never an address. */
export interface HttpMetrics {
  observeRequest(labels: { method: string; route: string; status: number }, durationMs: number): void;
  streamOpened(): void;
  streamClosed(): void;
}

export interface HttpDeps {
  jobs: Jobs;
  keys: Keys;
  tenants: Tenants;
  /** The spawner's last report; null while it is away. */
  enforcement(): EnforcementReport | null;
  metrics: HttpMetrics;
  log: Logger;
  version: string;
  bodyLimitBytes?: number;
  heartbeatMs?: number;
}
