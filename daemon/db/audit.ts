// The audit_log table, which only grows. Changes of tenants are written by the table's own trigger, whoever makes them.
import type { Queryable } from './pool.ts';

export interface AuditEntry {
  id: number;
  at: Date;
  /** The database login, and the role that it acted as. */
  login: string;
  actingRole: string;
  tenantId: string;
  action: string;
  columnName: string | null;
  oldValue: unknown;
  newValue: unknown;
}

/** Adds an entry of another kind than a tenant's change, such as `key.create`. Time and author are the database's. */
export async function writeAudit(
  db: Queryable,
  { tenantId, action, newValue }: { tenantId: string; action: string; newValue?: unknown },
): Promise<void> {
  await db.query('insert into audit_log (tenant_id, action, new_value) values ($1, $2, $3)', [
    tenantId,
    action,
    newValue === undefined ? null : JSON.stringify(newValue),
  ]);
}

/** Entries of one tenant, newest first, before `beforeId`. */
export async function readAudit(
  db: Queryable,
  tenantId: string,
  limit: number,
  beforeId: number = Number.MAX_SAFE_INTEGER,
): Promise<AuditEntry[]> {
  const { rows } = await db.query<AuditEntry>(
    `select id, at, login, acting_role as "actingRole", tenant_id as "tenantId", action,
            column_name as "columnName", old_value as "oldValue", new_value as "newValue"
     from audit_log where tenant_id = $1 and id < $2 order by id desc limit $3`,
    [tenantId, beforeId, limit],
  );
  return rows;
}
