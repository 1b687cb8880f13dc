// The engines table: the names that tenants.wbb_engine may hold. What they are is the spawner's own configuration.
import type { Queryable } from './pool.ts';

/** Adds engines that a spawner knows and the table does not; none is ever removed here. */
export async function registerEngines(db: Queryable, names: readonly string[]): Promise<string[]> {
  const { rows } = await db.query<{ name: string }>(
    `insert into engines (name) select unnest($1::text[]) on conflict (name) do nothing returning name`,
    [names],
  );
  return rows.map(({ name }) => name);
}

/** All names in order. */
export async function listEngines(db: Queryable): Promise<string[]> {
  const { rows } = await db.query<{ name: string }>('select name from engines order by name');
  return rows.map(({ name }) => name);
}
