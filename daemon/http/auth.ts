// Bearer keys: who asks, and whether the route is for them. Never logs or repeats a key.
import { createHash, timingSafeEqual } from 'node:crypto';
import type { FastifyRequest } from 'fastify';
import { Problem } from '../errors.ts';
import type { Caller, Keys, Role } from './deps.ts';

const BEARER = /^Bearer +(djk_[A-Za-z0-9_-]{16,128}) *$/i;

/**
 * Sets `request.caller` on routes that name roles. Throws DJ_UNAUTHENTICATED (the same for a missing, malformed, unknown,
 * revoked or expired key) or DJ_FORBIDDEN.
 */
export async function authenticate(request: FastifyRequest, keys: Keys): Promise<void> {
  const roles = request.routeOptions.config.roles;
  if (roles === undefined) return;
  const caller = await findCaller(request.headers.authorization, keys);
  if (caller === null) {
    throw new Problem(
      'DJ_UNAUTHENTICATED',
      'Send "Authorization: Bearer djk_…" with a key that is in force.',
      {
        headers: { 'www-authenticate': 'Bearer realm="djinnd"' },
      },
    );
  }
  request.caller = caller;
  if (!roles.includes(caller.role)) {
    throw new Problem('DJ_FORBIDDEN', `This needs a key of role ${roles.join(' or ')}.`);
  }
}

async function findCaller(header: string | undefined, keys: Keys): Promise<Caller | null> {
  const token = BEARER.exec(header ?? '')?.[1];
  if (token === undefined) return null;
  const sha256 = createHash('sha256').update(token).digest();
  const stored = await keys.find(sha256);
  // The index finds the row; the comparison that admits is this one.
  if (stored === null || stored.sha256.length !== sha256.length || !timingSafeEqual(stored.sha256, sha256))
    return null;
  return { keyId: stored.keyId, role: stored.role, tenantIds: stored.tenantIds };
}

const ONE_TENANT: readonly Role[] = ['caller', 'tenant_admin'];

/** The tenant that a new job is for. Throws DJ_TENANT_NOT_ALLOWED, DJ_TENANT_REQUIRED or DJ_FORBIDDEN. */
export function tenantOf(caller: Caller, named: string | undefined): string {
  if (ONE_TENANT.includes(caller.role)) {
    if (named !== undefined) {
      throw new Problem(
        'DJ_TENANT_NOT_ALLOWED',
        'The key itself says the tenant. Remove the member "tenantId".',
      );
    }
    const own = caller.tenantIds[0];
    if (own === undefined || caller.tenantIds.length !== 1) {
      throw new Problem('DJ_FORBIDDEN', 'This key belongs to no tenant. Ask the operator for another.');
    }
    return own;
  }
  if (named === undefined) {
    throw new Problem('DJ_TENANT_REQUIRED', 'Add the member "tenantId" with one of the tenants of this key.');
  }
  if (!caller.tenantIds.includes(named)) {
    throw new Problem('DJ_FORBIDDEN', 'This key does not act for the tenant that "tenantId" names.');
  }
  return named;
}

/** The caller as seen by a list that is narrowed to one tenant. Throws as tenantOf does. */
export function narrowTo(caller: Caller, named: string | undefined): Caller {
  if (named === undefined) return caller;
  if (caller.role === 'operator') return { ...caller, role: 'platform', tenantIds: [named] };
  return { ...caller, tenantIds: [tenantOf(caller, named)] };
}
