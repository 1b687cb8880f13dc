// `djinnd tenant`: creates and lists tenants and changes their limits, as the operator role.
import { changeTenant, createTenant, listTenants, type Tenant, type TenantChange } from '../db/tenants.ts';
import { type CommandContext, CommandError, parseCommandArgs, UsageError } from './command.ts';
import { withOperator } from './database.ts';
import { formatTable } from './table.ts';

export const help = `Creates and lists tenants and changes their limits.

Usage: djinnd [--instance NAME] tenant create ID [LIMIT...] [--json]
       djinnd [--instance NAME] tenant list [--json]
       djinnd [--instance NAME] tenant limits ID [LIMIT...] [--json]

LIMIT is one of
  --engine NAME          which engine runs its jobs (wbb_engine)
  --memory-bytes N       memory of one job              --pids N          processes of one job
  --cpu-percent N        100 is one processor           --wall-ms N       longest time of one job
  --output-bytes N       events of one job              --disk-bytes N    temporary files of one job
  --max-running N        jobs at a time                 --max-queued N    jobs that wait
  --monthly-tokens N     per month; none: no cap        --network none|host
  --total-memory-bytes N, --total-pids N, --total-cpu-percent N    all its jobs together; none: no total
A number may end in K, M or G (powers of 1024). \`limits ID\` without a LIMIT shows them.
Changes hold for the next job. Exit codes: 0 done, 1 refused, 2 wrong usage.
`;

const NUMBERS = {
  'memory-bytes': 'memoryBytes',
  pids: 'pids',
  'cpu-percent': 'cpuPercent',
  'wall-ms': 'wallMs',
  'output-bytes': 'outputBytes',
  'disk-bytes': 'diskBytes',
  'max-running': 'maxRunning',
  'max-queued': 'maxQueued',
  'monthly-tokens': 'monthlyTokens',
  'total-memory-bytes': 'totalMemoryBytes',
  'total-pids': 'totalPids',
  'total-cpu-percent': 'totalCpuPercent',
} as const satisfies Record<string, keyof TenantChange>;
const MAY_BE_NONE = /^(monthly-tokens|total-)/;

const OPTIONS = {
  json: { type: 'boolean', default: false },
  engine: { type: 'string' },
  network: { type: 'string' },
  ...Object.fromEntries(Object.keys(NUMBERS).map((name) => [name, { type: 'string' as const }])),
} as const;

export async function run(args: string[], context: CommandContext): Promise<number> {
  const [verb, ...rest] = args;
  const { values, positionals } = parseCommandArgs(rest, OPTIONS, verb === 'list' ? 0 : 1);
  const json = values.json === true;
  const change = tenantChange(values);
  if (verb === 'list') {
    if (Object.keys(change).length > 0) throw new UsageError('tenant list takes no limits');
    return list(context, json);
  }
  const [id] = positionals;
  if (verb !== 'create' && verb !== 'limits')
    throw new UsageError(`tenant needs create, list or limits, not "${verb ?? ''}"`);
  if (id === undefined) throw new UsageError(`tenant ${verb} needs the tenant's id`);
  if (!/^[A-Za-z0-9_-]{1,64}$/.test(id))
    throw new UsageError(`"${id}" cannot be an id: use up to 64 of A-Z a-z 0-9 _ -`);
  const tenant = await withOperator(context, (pool) =>
    verb === 'create' ? createTenant(pool, id, change) : changeTenant(pool, id, change),
  );
  if (tenant === null) throw new CommandError(`there is no tenant ${id}`);
  await context.write(json ? asJson(tenant) : describe(tenant));
  return 0;
}

async function list(context: CommandContext, json: boolean): Promise<number> {
  const tenants: Tenant[] = await withOperator(context, async (pool) => {
    const all: Tenant[] = [];
    for (;;) {
      const page = await listTenants(pool, 1000, all.at(-1)?.id);
      all.push(...page);
      if (page.length < 1000) return all;
    }
  });
  if (json) {
    for (const tenant of tenants) await context.write(asJson(tenant));
    return 0;
  }
  const rows = tenants.map((one) => [
    one.id,
    one.wbbEngine,
    String(one.maxRunning),
    String(one.memoryBytes),
    one.network,
  ]);
  await context.write(formatTable(['tenant', 'engine', 'max running', 'memory bytes', 'network'], rows));
  return 0;
}

/** One line, with the names that HTTP has. */
const asJson = ({ id, ...columns }: Tenant): string => `${JSON.stringify({ tenantId: id, ...columns })}\n`;

function describe(tenant: Tenant): string {
  return Object.entries(tenant)
    .map(
      ([name, value]) =>
        `${name.padEnd(18)}${value instanceof Date ? value.toISOString() : (value ?? 'none')}\n`,
    )
    .join('');
}

function tenantChange(values: Record<string, string | boolean | undefined>): TenantChange {
  const change: Record<string, number | string | null> = {};
  if (typeof values.engine === 'string') change.wbbEngine = values.engine;
  if (typeof values.network === 'string') change.network = values.network;
  for (const [option, field] of Object.entries(NUMBERS)) {
    const value = values[option];
    if (typeof value === 'string')
      change[field] = value === 'none' && MAY_BE_NONE.test(option) ? null : amount(option, value);
  }
  return change as TenantChange;
}

function amount(option: string, value: string): number {
  const match = /^(\d{1,15})([KMG]?)$/.exec(value);
  const factor = { '': 1, K: 1024, M: 1024 ** 2, G: 1024 ** 3 }[match?.[2] ?? ''] ?? 1;
  const number = Number(match?.[1]) * factor;
  if (!Number.isSafeInteger(number))
    throw new UsageError(`--${option} is "${value}": use a whole number, such as 512M`);
  return number;
}
