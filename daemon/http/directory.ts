// Tenants and keys as the HTTP side sees them, over their tables. Times leave as RFC 3339 text.
import { type ApiKey, createKey, findKey, listKeys, revokeKey } from '../db/api-keys.ts';
import type { Pool } from '../db/pool.ts';
import { changeTenant, createTenant, listTenants, readTenant, type Tenant } from '../db/tenants.ts';
import { Problem } from '../errors.ts';
import type { Keys, Tenants } from './deps.ts';
import type { KeyView, TenantView } from './schemas/tenant.ts';

/** Keys by their table. */
export function createKeys(pool: Pool): Keys {
  return {
    find: (sha256) => findKey(pool, sha256),
    async create(_caller, tenantId, { role, name = '' }) {
      const { keyId, secret } = await createKey(pool, { role, tenantIds: [tenantId], name });
      return { keyId, role, name, tenantIds: [tenantId], secret };
    },
    async list(_caller, tenantId) {
      await mustExist(pool, tenantId);
      return (await listKeys(pool, tenantId)).map(keyView);
    },
    async revoke(_caller, tenantId, keyId) {
      const own = (await listKeys(pool, tenantId)).some((key) => key.keyId === keyId);
      if (!own || !(await revokeKey(pool, keyId))) {
        throw new Problem('DJ_NOT_FOUND', 'This tenant has no key with this id.');
      }
    },
  };
}

/** Tenants by their table. */
export function createTenants(pool: Pool): Tenants {
  return {
    create: async (_caller, { tenantId, ...change }) =>
      tenantView(await createTenant(pool, tenantId, change)),
    async list(_caller, { limit, cursor = '' }) {
      // One more than asked for tells whether there is a next page.
      const rows = await listTenants(pool, limit + 1, cursor);
      const page = rows.slice(0, limit);
      return { tenants: page.map(tenantView), next: rows.length > limit ? (page.at(-1)?.id ?? null) : null };
    },
    get: async (_caller, tenantId) => tenantView(await mustExist(pool, tenantId)),
    async change(_caller, tenantId, change) {
      return tenantView((await changeTenant(pool, tenantId, change)) ?? missing());
    },
  };
}

async function mustExist(pool: Pool, tenantId: string): Promise<Tenant> {
  return (await readTenant(pool, tenantId)) ?? missing();
}

function missing(): never {
  throw new Problem('DJ_NOT_FOUND', 'There is no tenant with this id.');
}

function tenantView({ id, createdAt, ...columns }: Tenant): TenantView {
  return { tenantId: id, ...columns, createdAt: createdAt.toISOString() };
}

function keyView({ createdAt, revokedAt, ...key }: ApiKey): KeyView {
  return { ...key, createdAt: createdAt.toISOString(), revokedAt: revokedAt?.toISOString() ?? null };
}
