// `djinnd doctor`: what this machine can enforce and what is installed, with the mend for each thing that is missing.
import { existsSync } from 'node:fs';
import { join } from 'node:path';
import { execa } from 'execa';
import manifest from '../../package.json' with { type: 'json' };
import { askSpawner } from '../ask-spawner.ts';
import { type Config, loadConfig } from '../config.ts';
import { listEngines } from '../db/engines.ts';
import { delegatedScope, replaceProcess, systemdManagesCgroups } from '../parent/replace.ts';
import { enforcementReport } from '../spawner/required-controls.ts';
import type { EnforcementReport } from '../spawner/wire.ts';
import { type CommandContext, parseCommandArgs } from './command.ts';
import { withOperator } from './database.ts';
import { formatEnforcement } from './enforcement-table.ts';
import { probeHere } from './self-probe.ts';

export const help = `Prints what this machine can enforce, control by control, with the reason and the mend; and what is installed.

Usage: djinnd [--instance NAME] doctor [--json]

Asks the running spawner; without one it probes by itself, in the place that \`djinnd start\` would use (on a machine
with systemd as root: a delegated scope of its own).
Exit codes: 0 strict mode would run jobs here, 1 it would refuse them (or DATABASE_URL cannot be reached), 2 wrong usage.
`;

interface Findings {
  versions: Record<string, string>;
  spawner: string;
  engines: string[];
  database: { ok: boolean; text: string };
  enforcement: EnforcementReport;
}

export async function run(args: string[], context: CommandContext): Promise<number> {
  const { values } = parseCommandArgs(args, {
    json: { type: 'boolean', default: false },
    placed: { type: 'boolean', default: false },
  });
  const config = loadConfig(context.env);
  const hello = existsSync(join(config.runDir, 'spawner.sock'))
    ? await askSpawner(config.runDir, 'hello', {}).catch(() => null) // dead, or not for this user: probed instead
    : null;
  if (hello === null && !values.placed && process.getuid?.() === 0 && systemdManagesCgroups()) {
    const scope = await delegatedScope(`djinnd-doctor-${process.pid}.scope`);
    const self = [process.execPath, join(import.meta.dirname, '../main.ts'), 'doctor', '--placed'];
    replaceProcess([...scope, ...self, ...(values.json ? ['--json'] : [])], context.env);
  }
  const seen = hello ?? (await probeHere(config));
  const { hierarchy, kernel, controls } = seen.enforcement;
  const strict = enforcementReport(
    'strict',
    { hierarchy, kernel, controls: controls as never, root: null },
    {},
  );
  const findings: Findings = {
    versions: await versions(),
    spawner:
      hello === null ? 'not running here; probed by this command' : `running, version ${hello.version}`,
    engines: seen.engines.map(({ name, kind }) => `${name} (${kind})`),
    database: await database(context, config),
    enforcement: { ...strict, mode: seen.enforcement.mode },
  };
  await context.write(values.json ? `${JSON.stringify(findings)}\n` : describe(findings));
  return strict.refused || !findings.database.ok ? 1 : 0;
}

async function versions(): Promise<Record<string, string>> {
  const bubblewrap = await execa('bwrap', ['--version'], { reject: false });
  return {
    djinnd: manifest.version,
    node: process.versions.node,
    bubblewrap: bubblewrap.failed
      ? 'missing: apt-get install bubblewrap'
      : bubblewrap.stdout.replace(/^bubblewrap /, ''),
  };
}

async function database(context: CommandContext, config: Config): Promise<Findings['database']> {
  try {
    return await withOperator(context, async (pool) => {
      const { rows } = await pool.query<{ version: string; migrations: number }>(
        `select current_setting('server_version') as version, (select count(*)::int from schema_migrations) as migrations`,
      );
      const engines = await listEngines(pool);
      const [{ version, migrations } = { version: '?', migrations: 0 }] = rows;
      return {
        ok: true,
        text: `Postgres ${version}, ${migrations} migrations, engines ${engines.join(', ')}`,
      };
    });
  } catch (error) {
    const text = error instanceof Error ? error.message : String(error);
    return config.databaseUrl === null
      ? { ok: true, text: `embedded, not running here` }
      : { ok: false, text };
  }
}

function describe({ versions, spawner, engines, database, enforcement }: Findings): string {
  const lines = {
    ...versions,
    spawner,
    engines: engines.length === 0 ? 'none' : engines.join(', '),
    database: database.text,
  };
  const head = Object.entries(lines).map(([name, value]) => `${name.padEnd(12)}${value}\n`);
  return `${head.join('')}\n${formatEnforcement(enforcement)}`;
}
