// What the HTTP side needs from the rest of the daemon, as interfaces: it never reaches into jobs, db or spawner itself.
import type { Logger } from 'pino';
import type { Jobs as AllJobs, Caller } from '../jobs/types.ts';
import type { EnforcementReport } from '../spawner/wire.ts';
import type { KeyBody, KeyView, NewKey, TenantBody, TenantChange, TenantView } from './schemas/tenant.ts';

export type { Caller, EventsOptions, JobBody, JobView } from '../jobs/types.ts';

export type Role = Caller['role'];

/** The part of the jobs that HTTP uses. */
export type Jobs = Pick<AllJobs, 'admit' | 'get' | 'list' | 'cancel' | 'events' | 'readiness'>;

/** A key as stored: never the secret, only its SHA-256. */
export interface StoredKey extends Caller {
  sha256: Buffer;
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
