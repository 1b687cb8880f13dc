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
async function explainRefusal<T>(query: Promise<T>): Promise<T> {
  try {
    return await query;
  } catch (error) {
    const { code, constraint = '' } = error as { code?: string; constraint?: string };
    if (code === '23505') throw new Problem('DJ_CONFLICT', 'there is a tenant with this id already');
    if (code === '23503') throw new Problem('DJ_BODY_INVALID', 'wbbEngine names no engine that is installed');
    if (constraint === 'tenants_network_is_none_or_host') {
      throw new Problem('DJ_BODY_INVALID', 'network must be none or host; lists of hosts do not exist yet');
    }
    if (code === '23514' || code === '22003') {
      const column = constraint.replace(/^tenants_/, '').replace(/_check$/, '');
      throw new Problem('DJ_BODY_INVALID', `${column === '' ? 'a value' : column} is out of bounds`);
    }
    throw error;
  }
}
