// The tenants table: the contract columns that operators change by SQL, read afresh whenever they matter.
import { Problem } from '../errors.ts';
import type { Queryable } from './pool.ts';

/** One row. Bytes, milliseconds, percent of one core; null where there is no limit. */
export interface Tenant {
  id: string;
  wbbEngine: string;
  memoryBytes: number;
  pids: number;
  cpuPercent: number;
  wallMs: number;
  outputBytes: number;
  diskBytes: number;
  maxRunning: number;
  maxQueued: number;
  monthlyTokens: number | null;
  network: 'none' | 'host';
  totalMemoryBytes: number | null;
  totalPids: number | null;
  totalCpuPercent: number | null;
  createdAt: Date;
}

const COLUMNS: Record<keyof Tenant, string> = {
  id: 'id',
  wbbEngine: 'wbb_engine',
  memoryBytes: 'memory_bytes',
  pids: 'pids',
  cpuPercent: 'cpu_percent',
  wallMs: 'wall_ms',
  outputBytes: 'output_bytes',
  diskBytes: 'disk_bytes',
  maxRunning: 'max_running',
  maxQueued: 'max_queued',
  monthlyTokens: 'monthly_tokens',
  network: 'network',
  totalMemoryBytes: 'total_memory_bytes',
  totalPids: 'total_pids',
  totalCpuPercent: 'total_cpu_percent',
  createdAt: 'created_at',
};
const SELECT = Object.entries(COLUMNS)
  .map(([field, column]) => `${column} as "${field}"`)
  .join(', ');

/** What may be given when a tenant is created or changed; an absent field keeps its default or value. */
export type TenantChange = Partial<Omit<Tenant, 'id' | 'createdAt'>>;

/** The row as it is now, or null. */
export async function readTenant(db: Queryable, tenantId: string): Promise<Tenant | null> {
  const { rows } = await db.query<Tenant>(`select ${SELECT} from tenants where id = $1`, [tenantId]);
  return rows[0] ?? null;
}

/** The tenant of a job, or null. */
export async function readTenantOfJob(db: Queryable, jobId: string): Promise<Tenant | null> {
  const { rows } = await db.query<Tenant>(
    `select ${SELECT} from tenants where id = (select tenant_id from jobs where job_id = $1)`,
    [jobId],
  );
  return rows[0] ?? null;
}

/** Tenants by id, after `after`. */
export async function listTenants(db: Queryable, limit: number, after = ''): Promise<Tenant[]> {
  const { rows } = await db.query<Tenant>(
    `select ${SELECT} from tenants where id > $1 order by id limit $2`,
    [after, limit],
  );
  return rows;
}

/** Creates a tenant. Throws Problem DJ_CONFLICT when there is one, DJ_BODY_INVALID when a value is out of bounds. */
export async function createTenant(db: Queryable, id: string, change: TenantChange = {}): Promise<Tenant> {
  const fields = changedFields(change);
  const columns = ['id', ...fields.map((field) => COLUMNS[field])];
  const { rows } = await explainRefusal(
    db,
    db.query<Tenant>(
      `insert into tenants (${columns.join(', ')})
       values (${columns.map((_, index) => `$${index + 1}`).join(', ')}) returning ${SELECT}`,
      [id, ...fields.map((field) => change[field])],
    ),
  );
  return rows[0] as Tenant;
}

/** Changes a tenant; null when there is none. Throws Problem DJ_BODY_INVALID when a value is out of bounds. */
export async function changeTenant(db: Queryable, id: string, change: TenantChange): Promise<Tenant | null> {
  const fields = changedFields(change);
  if (fields.length === 0) return readTenant(db, id);
  const assignments = fields.map((field, index) => `${COLUMNS[field]} = $${index + 2}`);
  const { rows } = await explainRefusal(
    db,
    db.query<Tenant>(`update tenants set ${assignments.join(', ')} where id = $1 returning ${SELECT}`, [
      id,
      ...fields.map((field) => change[field]),
    ]),
  );
  return rows[0] ?? null;
}

function changedFields(change: TenantChange): (keyof TenantChange)[] {
  return (Object.keys(change) as (keyof TenantChange)[]).filter(
    (field) => change[field] !== undefined && Object.hasOwn(COLUMNS, field),
  );
}

/** Turns the refusals of the table's own checks into Problems. */
async function explainRefusal<T>(db: Queryable, query: Promise<T>): Promise<T> {
  try {
    return await query;
  } catch (error) {
    const { code, constraint = '' } = error as { code?: string; constraint?: string };
    if (code === '23505') throw new Problem('DJ_CONFLICT', 'there is a tenant with this id already');
    if (code === '23503') throw new Problem('DJ_BODY_INVALID', 'wbbEngine names no engine that is installed');
    if (constraint === 'tenants_network_is_none_or_host') {
      throw new Problem('DJ_BODY_INVALID', 'network must be none or host; lists of hosts do not exist yet');
    }
    if (code === '23514') throw new Problem('DJ_BODY_INVALID', await boundsOf(db, constraint));
    if (code === '22003') throw new Problem('DJ_BODY_INVALID', 'a number is too large');
    throw error;
  }
}

/** `memory_bytes must be from 16777216 to 1099511627776`, as the table's own check has it. */
async function boundsOf(db: Queryable, constraint: string): Promise<string> {
  const column = constraint.replace(/^tenants_/, '').replace(/_check$/, '');
  const { rows } = await db.query<{ definition: string }>(
    `select pg_get_constraintdef(oid) as definition from pg_constraint
      where conrelid = 'tenants'::regclass and conname = $1`,
    [constraint],
  );
  const [least, most] = rows[0]?.definition.match(/\d+(?=\D*(?:AND|$))/g) ?? [];
  return most === undefined ? `${column} is out of bounds` : `${column} must be from ${least} to ${most}`;
}
