// Keys: stored as a hash only, found by it, revoked at once, tied to the tenants their role allows.
import assert from 'node:assert/strict';
import { after, before, test } from 'node:test';
import { createKey, findKey, listKeys, revokeKey, secretHash } from '../../../daemon/db/api-keys.ts';
import type { Pool } from '../../../daemon/db/pool.ts';
import { createTenant } from '../../../daemon/db/tenants.ts';
import { startPostgres, type TestPostgres } from '../../support/postgres.ts';

let postgres: TestPostgres;
let pool: Pool;

before(async () => {
  postgres = await startPostgres();
  pool = postgres.pool(await postgres.createDatabase());
  await createTenant(pool, 'a');
  await createTenant(pool, 'b');
});
after(() => postgres?.stop());

test('a key is found by the hash of its secret, and the secret is nowhere in the database', async () => {
  const { keyId, secret } = await createKey(pool, {
    role: 'platform',
    tenantIds: ['b', 'a'],
    name: 'backend',
  });
  assert.match(secret, /^djk_[A-Za-z0-9_-]{43}$/);
  const key = await findKey(pool, secretHash(secret));
  assert.deepEqual(
    [key?.keyId, key?.role, key?.tenantIds, key?.name],
    [keyId, 'platform', ['a', 'b'], 'backend'],
  );
  assert.equal(await findKey(pool, secretHash(`${secret}x`)), null);
  const { rows } = await pool.query('select api_keys::text as row from api_keys');
  assert.ok(!JSON.stringify(rows).includes(secret.slice(4)));
});

test('a revoked key is not found any more; revoking again is no error, an unknown key is', async () => {
  const { keyId, secret } = await createKey(pool, { role: 'caller', tenantIds: ['a'] });
  assert.equal(await revokeKey(pool, keyId), true);
  assert.equal(await findKey(pool, secretHash(secret)), null);
  assert.equal(await revokeKey(pool, keyId), true);
  assert.equal(await revokeKey(pool, 'key_unknown'), false);
  const listed = (await listKeys(pool, 'a')).find((key) => key.keyId === keyId);
  assert.ok(listed?.revokedAt instanceof Date);
});

test('a role that does not fit its tenants is refused, and nothing is stored', async () => {
  const count = async () => (await pool.query('select count(*)::int as n from api_keys')).rows[0].n;
  const earlier = await count();
  await assert.rejects(createKey(pool, { role: 'operator', tenantIds: ['a'] }), { code: 'DJ_BODY_INVALID' });
  await assert.rejects(createKey(pool, { role: 'caller', tenantIds: ['a', 'b'] }), {
    code: 'DJ_BODY_INVALID',
  });
  await assert.rejects(createKey(pool, { role: 'platform', tenantIds: [] }), { code: 'DJ_BODY_INVALID' });
  await assert.rejects(createKey(pool, { role: 'caller', tenantIds: ['nobody'] }), { code: 'DJ_NOT_FOUND' });
  assert.equal(await count(), earlier);
});
