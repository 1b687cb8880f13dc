// /v1/tenants: operators create tenants, change their limits and engine, and hand out keys.
import { Type } from 'typebox';
import { Problem } from '../../errors.ts';
import type { HttpDeps, Role } from '../deps.ts';
import type { App } from '../fastify-types.ts';
import { ID_PATTERN, refusals } from '../schemas/common.ts';
import {
  KeyBody,
  KeyView,
  NewKey,
  TenantBody,
  TenantChange,
  TenantList,
  TenantListQuery,
  TenantView,
} from '../schemas/tenant.ts';

const OPERATORS: readonly Role[] = ['operator'];
const ID = new RegExp(ID_PATTERN);
const config = { roles: OPERATORS };
const tags = ['tenants'];
const params = Type.Object({ tenantId: Type.String() });

function checkTenantId(tenantId: string): string {
  if (!ID.test(tenantId)) throw new Problem('DJ_NOT_FOUND', 'There is no tenant with this id.');
  return tenantId;
}

export function tenantRoutes(app: App, { tenants }: HttpDeps): void {
  app.post(
    '/v1/tenants',
    {
      config,
      schema: {
        summary: 'Create a tenant',
        tags,
        body: TenantBody,
        response: { 201: TenantView, ...refusals(400, 401, 403, 409) },
      },
    },
    async ({ caller, body }, reply) => {
      const tenant = await tenants.create(caller, body);
      return await reply.code(201).header('location', `/v1/tenants/${tenant.tenantId}`).send(tenant);
    },
  );

  app.get(
    '/v1/tenants',
    {
      config,
      schema: {
        summary: 'List tenants',
        tags,
        querystring: TenantListQuery,
        response: { 200: TenantList, ...refusals(400, 401, 403) },
      },
    },
    async ({ caller, query: { limit = 50, cursor } }) =>
      await tenants.list(caller, { limit, ...(cursor === undefined ? {} : { cursor }) }),
  );

  app.get(
    '/v1/tenants/:tenantId',
    {
      config,
      schema: {
        summary: 'One tenant',
        tags,
        params,
        response: { 200: TenantView, ...refusals(401, 403, 404) },
      },
    },
    async ({ caller, params: { tenantId } }) => await tenants.get(caller, checkTenantId(tenantId)),
  );

  app.patch(
    '/v1/tenants/:tenantId',
    {
      config,
      schema: {
        summary: 'Change limits or engine; in force for the next job',
        tags,
        params,
        body: TenantChange,
        response: { 200: TenantView, ...refusals(400, 401, 403, 404) },
      },
    },
    async ({ caller, params: { tenantId }, body }) =>
      await tenants.change(caller, checkTenantId(tenantId), body),
  );
}

export function keyRoutes(app: App, { keys }: HttpDeps): void {
  app.post(
    '/v1/tenants/:tenantId/keys',
    {
      config,
      schema: {
        summary: 'Create a key for a tenant',
        tags,
        params,
        body: KeyBody,
        response: { 201: NewKey, ...refusals(400, 401, 403, 404) },
      },
    },
    async ({ caller, params: { tenantId }, body }, reply) => {
      const key = await keys.create(caller, checkTenantId(tenantId), body);
      return await reply.code(201).header('cache-control', 'no-store').send(key);
    },
  );

  app.get(
    '/v1/tenants/:tenantId/keys',
    {
      config,
      schema: {
        summary: "A tenant's keys in force, without their secrets",
        tags,
        params,
        response: { 200: Type.Object({ keys: Type.Array(KeyView) }), ...refusals(401, 403, 404) },
      },
    },
    async ({ caller, params: { tenantId } }) => ({ keys: await keys.list(caller, checkTenantId(tenantId)) }),
  );

  app.delete(
    '/v1/tenants/:tenantId/keys/:keyId',
    {
      config,
      schema: {
        summary: 'Revoke a key; in force for the next request',
        tags,
        params: Type.Object({ tenantId: Type.String(), keyId: Type.String() }),
        response: { 204: Type.Null(), ...refusals(401, 403, 404) },
      },
    },
    async ({ caller, params: { tenantId, keyId } }, reply) => {
      if (!ID.test(keyId)) throw new Problem('DJ_NOT_FOUND', 'This tenant has no key with this id.');
      await keys.revoke(caller, checkTenantId(tenantId), keyId);
      return await reply.code(204).send(null);
    },
  );
}
