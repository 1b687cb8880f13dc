// Schemas of tenants and their keys, for operators. A tenant's members are its contract columns in camel case.
import { type Static, Type } from 'typebox';
import { Count, ENGINE_PATTERN, ID_PATTERN, Next, Nullable, PageQuery, Strict } from './common.ts';

const tenantId = Type.String({ pattern: ID_PATTERN });

/** The column of the same name holds the bounds; a value outside is answered DJ_BODY_INVALID. */
const columns = {
  wbbEngine: Type.String({ pattern: ENGINE_PATTERN, description: 'The engine of the next job.' }),
  memoryBytes: Count('Most memory of one job.'),
  pids: Count('Most processes of one job.'),
  cpuPercent: Count('Most processor time of one job; 100 is one processor.'),
  wallMs: Count('Longest time of one job.'),
  outputBytes: Count('Most bytes of events of one job.'),
  diskBytes: Count('Most bytes of temporary files of one job.'),
  maxRunning: Count('Jobs that run at a time; 0 pauses the tenant.'),
  maxQueued: Count('Jobs that wait.'),
  monthlyTokens: Nullable(Count('Tokens per calendar month (UTC); null: no cap.')),
  network: Type.Union([Type.Literal('none'), Type.Literal('host')]),
  totalMemoryBytes: Nullable(Count('Memory of all its jobs together; null: no total.')),
  totalPids: Nullable(Count('Processes of all its jobs together; null: no total.')),
  totalCpuPercent: Nullable(Count('Processor time of all its jobs together; null: no total.')),
};

const changes = Type.Partial(Type.Object(columns)).properties;
export const TenantChange = Type.Object(changes, { ...Strict, minProperties: 1 });
export type TenantChange = Static<typeof TenantChange>;

export const TenantBody = Type.Object({ tenantId, ...changes }, Strict);
export type TenantBody = Static<typeof TenantBody>;

export const TenantView = Type.Object({
  tenantId,
  ...columns,
  createdAt: Type.String({ format: 'date-time' }),
});
export type TenantView = Static<typeof TenantView>;

export const TenantList = Type.Object({ tenants: Type.Array(TenantView), next: Next });
export const TenantListQuery = Type.Object(PageQuery, Strict);

export const KeyBody = Type.Object(
  {
    role: Type.Union([Type.Literal('caller'), Type.Literal('tenant_admin')], {
      description: 'Keys for several tenants, or for operators, are made on the command line.',
    }),
    name: Type.Optional(Type.String({ maxLength: 128 })),
  },
  Strict,
);
export type KeyBody = Static<typeof KeyBody>;

const key = {
  keyId: Type.String(),
  role: Type.String(),
  name: Type.String(),
  tenantIds: Type.Array(Type.String()),
};

export const KeyView = Type.Object({
  ...key,
  createdAt: Type.String({ format: 'date-time' }),
  revokedAt: Nullable(Type.String({ format: 'date-time' })),
});
export type KeyView = Static<typeof KeyView>;

export const NewKey = Type.Object({
  ...key,
  secret: Type.String({ description: 'Shown once: only its SHA-256 is kept.' }),
});
export type NewKey = Static<typeof NewKey>;
