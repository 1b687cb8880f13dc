// `djinnd key`: creates and revokes bearer keys. A secret is printed once, on stdout, and kept nowhere.
import { createKey, type KeyRole, revokeKey } from '../db/api-keys.ts';
import { type CommandContext, CommandError, parseCommandArgs, UsageError } from './command.ts';
import { withOperator } from './database.ts';

export const help = `Creates and revokes the keys that callers send as "Authorization: Bearer djk_…".

Usage: djinnd [--instance NAME] key create --role caller|tenant_admin --tenant ID [--name TEXT] [--json]
       djinnd [--instance NAME] key create --role platform --tenant ID [--tenant ID...]
       djinnd [--instance NAME] key create --role operator
       djinnd [--instance NAME] key revoke KEY_ID

caller: its tenant's jobs. tenant_admin: the same, and what is for its administrators alone. platform: acts for the
tenants named. operator: tenants, keys, and reads every job. The default role is caller. The secret is the one line on
stdout (with --json its member "secret"); only its SHA-256 is kept, so it cannot be shown again.
Exit codes: 0 done, 1 refused, 2 wrong usage.
`;

const ROLES: readonly KeyRole[] = ['caller', 'tenant_admin', 'platform', 'operator'];

export async function run(args: string[], context: CommandContext): Promise<number> {
  const [verb, ...rest] = args;
  if (verb === 'create') return create(rest, context);
  if (verb === 'revoke') return revoke(rest, context);
  throw new UsageError(`key needs create or revoke, not "${verb ?? ''}"`);
}

async function create(args: string[], context: CommandContext): Promise<number> {
  const { values } = parseCommandArgs(args, {
    role: { type: 'string', default: 'caller' },
    tenant: { type: 'string', multiple: true, default: [] },
    name: { type: 'string', default: '' },
    json: { type: 'boolean', default: false },
  });
  const role = ROLES.find((one) => one === values.role);
  if (role === undefined) throw new UsageError(`--role is "${values.role}": use one of ${ROLES.join(', ')}`);
  const tenantIds = values.tenant;
  const key = await withOperator(context, (pool) => createKey(pool, { role, tenantIds, name: values.name }));
  if (values.json) await context.write(`${JSON.stringify({ ...key, role, tenantIds })}\n`);
  else {
    context.note(`${key.keyId} (${role}): the secret is shown this once\n`);
    await context.write(`${key.secret}\n`);
  }
  return 0;
}

async function revoke(args: string[], context: CommandContext): Promise<number> {
  const { values, positionals } = parseCommandArgs(args, { json: { type: 'boolean', default: false } }, 1);
  const [keyId] = positionals;
  if (keyId === undefined) throw new UsageError("key revoke needs the key's id (key_…), not its secret");
  if (!keyId.startsWith('key_')) throw new UsageError('a key is revoked by its id, which starts with key_');
  const known = await withOperator(context, (pool) => revokeKey(pool, keyId));
  if (!known) throw new CommandError(`there is no key ${keyId}`);
  await context.write(values.json ? `${JSON.stringify({ keyId, revoked: true })}\n` : `revoked ${keyId}\n`);
  return 0;
}
