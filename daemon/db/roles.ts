// The three roles and the schema rights that migrations presuppose. Changes nothing that is already as it should be.
import type { Queryable } from './pool.ts';

/** `djinnd_owner` owns every table, `djinnd_app` is the daemon, `djinnd_operator` is a person at psql. */
const ROLES: Record<string, string> = {
  djinnd_owner: 'nologin',
  djinnd_app: 'login',
  djinnd_operator: 'login',
};

/** What a database administrator runs where the login of DATABASE_URL may not create roles. `%` is that login. */
function statements(login: string, database: string): string[] {
  const names = Object.keys(ROLES).join(', ');
  const quoted = `"${login.replaceAll('"', '""')}"`;
  return [
    ...Object.entries(ROLES).map(([name, login]) => `create role ${name} ${login};`),
    `grant ${names} to ${quoted};`,
    'grant usage, create on schema public to djinnd_owner;',
    'grant usage on schema public to djinnd_app, djinnd_operator;',
    `grant create on database "${database.replaceAll('"', '""')}" to djinnd_owner;`,
  ];
}

/** Roles or rights are missing and this login may not make them; the message lists the statements to run. */
export class RolesError extends Error {}

/** Makes roles, memberships and schema rights where they are missing. Throws RolesError. */
export async function ensureRoles(client: Queryable): Promise<void> {
  const login = await client.query<{ login: string; database: string }>(
    'select session_user::text as login, current_database()::text as database',
  );
  const { login: user = '', database = '' } = login.rows[0] ?? {};
  try {
    for (const [name, attributes] of Object.entries(ROLES)) await ensureRole(client, name, attributes);
    await ensureRights(client, database);
  } catch (error) {
    if ((error as { code?: string }).code !== '42501') throw error;
    const list = statements(user, database).join('\n  ');
    throw new RolesError(
      `the login "${user}" may not prepare the database (${(error as Error).message}); ` +
        `an administrator runs these once, where they are missing:\n  ${list}`,
    );
  }
}

async function ensureRole(client: Queryable, name: string, attributes: string): Promise<void> {
  const found = await client.query('select 1 from pg_roles where rolname = $1', [name]);
  if (found.rowCount === 0) {
    // Roles belong to the whole server: the migrator of another database may have made it just now.
    await client.query(`create role ${name} ${attributes}`).catch((error: { code?: string }) => {
      if (error.code !== '42710' && error.code !== '23505') throw error;
    });
  }
  const member = await client.query<{ ok: boolean }>(
    `select rolsuper or pg_has_role(session_user, $1, 'member') as ok from pg_roles where rolname = session_user`,
    [name],
  );
  if (member.rows[0]?.ok === true) return;
  await client.query(`grant ${name} to session_user`).catch((error: { code?: string; message: string }) => {
    // Two migrators granting at once: "tuple concurrently updated". One of them did it.
    if (!/concurrently updated/.test(error.message)) throw error;
  });
}

async function ensureRights(client: Queryable, database: string): Promise<void> {
  const rights = await client.query<{ owner: boolean; users: boolean; create: boolean }>(
    `select has_schema_privilege('djinnd_owner', 'public', 'create')
              and has_schema_privilege('djinnd_owner', 'public', 'usage') as owner,
            has_schema_privilege('djinnd_app', 'public', 'usage')
              and has_schema_privilege('djinnd_operator', 'public', 'usage') as users,
            has_database_privilege('djinnd_owner', current_database(), 'create') as create`,
  );
  const { owner, users, create } = rights.rows[0] ?? {};
  if (owner !== true) await client.query('grant usage, create on schema public to djinnd_owner');
  if (users !== true) await client.query('grant usage on schema public to djinnd_app, djinnd_operator');
  if (create !== true) {
    await client.query(`grant create on database "${database.replaceAll('"', '""')}" to djinnd_owner`);
  }
}
