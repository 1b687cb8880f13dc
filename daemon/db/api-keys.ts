// The api_keys table: bearer keys by the sha256 of their secret. A secret is never stored and shown once.
import { createHash, randomBytes } from 'node:crypto';
import { nanoid } from 'nanoid';
import { Problem } from '../errors.ts';
import { inTransaction, type Pool, type Queryable } from './pool.ts';

export type KeyRole = 'caller' | 'tenant_admin' | 'platform' | 'operator';

export interface ApiKey {
  keyId: string;
  role: KeyRole;
  name: string;
  /** Empty for an operator, who acts for all. */
  tenantIds: string[];
  createdAt: Date;
  revokedAt: Date | null;
}

const SELECT = `k.key_id as "keyId", k.role, k.name, k.created_at as "createdAt", k.revoked_at as "revokedAt",
  array(select t.tenant_id from api_key_tenants t where t.key_id = k.key_id order by 1) as "tenantIds"`;

/** The stored form of a secret. */
export const secretHash = (secret: string): Buffer => createHash('sha256').update(secret).digest();

/**
 * Creates a key with 256 random bits. `caller` and `tenant_admin` belong to one tenant, `platform` to one or more,
 * `operator` to none in particular. Throws Problem DJ_BODY_INVALID or, for an unknown tenant, DJ_NOT_FOUND.
 */
export async function createKey(
  pool: Pool,
  { role, tenantIds, name = '' }: { role: KeyRole; tenantIds: readonly string[]; name?: string },
): Promise<{ keyId: string; secret: string }> {
  const count = new Set(tenantIds).size;
  const fits = role === 'operator' ? count === 0 : role === 'platform' ? count >= 1 : count === 1;
  if (!fits) {
    const rule = {
      operator: 'no tenant',
      platform: 'at least one tenant',
      caller: 'one tenant',
      tenant_admin: 'one tenant',
    };
    throw new Problem('DJ_BODY_INVALID', `a key with the role ${role} names ${rule[role]}`);
  }
  const keyId = `key_${nanoid()}`;
  const secret = `djk_${randomBytes(32).toString('base64url')}`;
  await inTransaction(pool, async (client) => {
    await client.query('insert into api_keys (key_id, secret_sha256, role, name) values ($1, $2, $3, $4)', [
      keyId,
      secretHash(secret),
      role,
      name,
    ]);
    const added = await client.query(
      `insert into api_key_tenants (key_id, tenant_id)
       select $1, t.id from tenants t where t.id = any($2::text[])`,
      [keyId, tenantIds],
    );
    if (added.rowCount !== count) throw new Problem('DJ_NOT_FOUND', 'there is no such tenant');
  });
  return { keyId, secret };
}

/** A key with the stored hash, which the caller compares in constant time. */
export type FoundKey = ApiKey & { sha256: Buffer };

/** The key with this sha256, or null when there is none or it is revoked. */
export async function findKey(db: Queryable, sha256: Buffer): Promise<FoundKey | null> {
  const { rows } = await db.query<FoundKey>(
    `select ${SELECT}, k.secret_sha256 as "sha256" from api_keys k where k.secret_sha256 = $1 and k.revoked_at is null`,
    [sha256],
  );
  return rows[0] ?? null;
}

/** Keys that act for a tenant (or all keys), newest first, revoked ones included. */
export async function listKeys(db: Queryable, tenantId?: string): Promise<ApiKey[]> {
  const { rows } = await db.query<ApiKey>(
    `select ${SELECT} from api_keys k
     where $1::text is null or exists (
       select 1 from api_key_tenants t where t.key_id = k.key_id and t.tenant_id = $1)
     order by k.created_at desc, k.key_id limit 1000`,
    [tenantId ?? null],
  );
  return rows;
}

/** Revokes at once and for good. False when there is no such key; a revoked one stays as it is. */
export async function revokeKey(db: Queryable, keyId: string): Promise<boolean> {
  const { rowCount } = await db.query(
    'update api_keys set revoked_at = coalesce(revoked_at, now()) where key_id = $1',
    [keyId],
  );
  return rowCount === 1;
}
