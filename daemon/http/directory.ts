// Tenants and keys as the HTTP side sees them, over their tables. Times leave as RFC 3339 text. Every change is put
// down with the key that made it; the tenants' own trigger knows only the database login.
import { type ApiKey, createKey, findKey, listKeys, revokeKey } from '../db/api-keys.ts';
import { writeAudit } from '../db/audit.ts';
import type { Pool } from '../db/pool.ts';
import { changeTenant, createTenant, listTenants, readTenant, type Tenant } from '../db/tenants.ts';
import { Problem } from '../errors.ts';
import type { Caller, Keys, Tenants } from './deps.ts';
import type { KeyView, TenantView } from './schemas/tenant.ts';

/** Keys by their table. */
export function createKeys(pool: Pool): Keys {
  return {
    find: (sha256) => findKey(pool, sha256),
    async create(caller, tenantId, { role, name = '' }) {
      const { keyId, secret } = await createKey(pool, { role, tenantIds: [tenantId], name });
      await note(pool, caller, tenantId, 'key.create', { keyId, role, name });
      return { keyId, role, name, tenantIds: [tenantId], secret };
    },
    async list(_caller, tenantId) {
      await mustExist(pool, tenantId);
      return (await listKeys(pool, tenantId)).map(keyView);
    },
    async revoke(caller, tenantId, keyId) {
      const own = (await listKeys(pool, tenantId)).some((key) => key.keyId === keyId);
      if (!own || !(await revokeKey(pool, keyId))) {
        throw new Problem('DJ_NOT_FOUND', 'This tenant has no key with this id.');
      }
      await note(pool, caller, tenantId, 'key.revoke', { keyId });
    },
  };
}

/** Tenants by their table. */
export function createTenants(pool: Pool): Tenants {
  return {
    async create(caller, { tenantId, ...change }) {
      const tenant = await createTenant(pool, tenantId, change);
      await note(pool, caller, tenantId, 'tenant.create', change);
      return tenantView(tenant);
    },
    async list(_caller, { limit, cursor = '' }) {
      // One more than asked for tells whether there is a next page.
      const rows = await listTenants(pool, limit + 1, cursor);
      const page = rows.slice(0, limit);
      return { tenants: page.map(tenantView), next: rows.length > limit ? (page.at(-1)?.id ?? null) : null };
    },
    get: async (_caller, tenantId) => tenantView(await mustExist(pool, tenantId)),
    async change(caller, tenantId, change) {
      const tenant = (await changeTenant(pool, tenantId, change)) ?? missing();
      await note(pool, caller, tenantId, 'tenant.change', change);
      return tenantView(tenant);
    },
  };
}

async function note(
  pool: Pool,
  { keyId }: Caller,
  tenantId: string,
  action: string,
  what: object,
): Promise<void> {
  await writeAudit(pool, { tenantId, action, newValue: { byKey: keyId, ...what } });
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
