// Tenants and keys kept in memory, with the same refusals as the real tables.
import { createHash, randomBytes } from 'node:crypto';
import { nanoid } from 'nanoid';
import { Problem } from '../../daemon/errors.ts';
import type { Keys, Role, StoredKey, Tenants } from '../../daemon/http/deps.ts';
import type { TenantView } from '../../daemon/http/schemas/tenant.ts';

export interface MemoryDirectory {
  keys: Keys;
  tenants: Tenants;
  /** Makes a key and returns its secret. */
  issue(role: Role, ...tenantIds: string[]): string;
  revokeAll(): void;
}

const DEFAULTS: Omit<TenantView, 'tenantId' | 'createdAt'> = {
  wbbEngine: 'djinn',
  memoryBytes: 2 ** 30,
  pids: 512,
  cpuPercent: 100,
  wallMs: 1_800_000,
  outputBytes: 2 ** 28,
  diskBytes: 2 ** 30,
  maxRunning: 4,
  maxQueued: 1000,
  monthlyTokens: null,
  network: 'none',
  totalMemoryBytes: null,
  totalPids: null,
  totalCpuPercent: null,
};

export function createMemoryDirectory(...tenantIds: string[]): MemoryDirectory {
  const tenants = new Map<string, TenantView>();
  let stored: (StoredKey & { name: string })[] = [];
  const add = (tenantId: string, change = {}) => {
    const view = { ...DEFAULTS, ...change, tenantId, createdAt: new Date().toISOString() };
    tenants.set(tenantId, view);
    return view;
  };
  for (const tenantId of tenantIds) add(tenantId);
  const find = (tenantId: string) => {
    const tenant = tenants.get(tenantId);
    if (tenant === undefined) throw new Problem('DJ_NOT_FOUND', 'There is no tenant with this id.');
    return tenant;
  };
  const make = (role: Role, name: string, ids: string[]) => {
    const secret = `djk_${randomBytes(32).toString('base64url')}`;
    const sha256 = createHash('sha256').update(secret).digest();
    const key = { keyId: `key_${nanoid()}`, role, tenantIds: ids, sha256, name };
    stored.push(key);
    return { key, secret };
  };
  return {
    issue: (role, ...ids) => make(role, '', ids).secret,
    revokeAll: () => {
      stored = [];
    },
    keys: {
      find: async (sha256) => stored.find((key) => key.sha256.equals(sha256)) ?? null,
      async create(_caller, tenantId, { role, name = '' }) {
        find(tenantId);
        const { key, secret } = make(role, name, [tenantId]);
        return { keyId: key.keyId, role, name, tenantIds: [tenantId], secret };
      },
      async list(_caller, tenantId) {
        find(tenantId);
        return stored
          .filter((key) => key.tenantIds.includes(tenantId))
          .map(({ keyId, role, name, tenantIds: ids }) => ({
            keyId,
            role,
            name,
            tenantIds: ids,
            createdAt: new Date().toISOString(),
            revokedAt: null,
          }));
      },
      async revoke(_caller, tenantId, keyId) {
        find(tenantId);
        if (!stored.some((key) => key.keyId === keyId)) {
          throw new Problem('DJ_NOT_FOUND', 'This tenant has no key with this id.');
        }
        stored = stored.filter((key) => key.keyId !== keyId);
      },
    },
    tenants: {
      async create(_caller, { tenantId, ...change }) {
        if (tenants.has(tenantId))
          throw new Problem('DJ_CONFLICT', 'There is a tenant with this id already.');
        return add(tenantId, change);
      },
      list: async () => ({ tenants: [...tenants.values()], next: null }),
      get: async (_caller, tenantId) => find(tenantId),
      change: async (_caller, tenantId, change) => Object.assign(find(tenantId), change),
    },
  };
}
