// How a command reaches the instance's database as the operator role, and what to say when it cannot.
import type { Pool } from 'pg';
import { type Config, loadConfig } from '../config.ts';
import { createPool, isDatabaseAway } from '../db/pool.ts';
import { Problem } from '../errors.ts';
import { createLogger } from '../log.ts';
import { embeddedUrl } from '../parent/processes.ts';
import { type CommandContext, CommandError } from './command.ts';

/** The operator's connection string: DATABASE_URL as it is, or the embedded socket with the role as login. */
export function operatorUrl(config: Config): string {
  return config.databaseUrl ?? embeddedUrl(config, 'djinnd_operator');
}

/** Runs `work` on a small pool that acts as djinnd_operator. Refusals and a database that is away become CommandError. */
export async function withOperator<T>(
  context: CommandContext,
  work: (pool: Pool, config: Config) => Promise<T>,
): Promise<T> {
  const config = loadConfig(context.env);
  const log = createLogger({ ...config, logLevel: 'silent' }, 'command');
  const pool = createPool({ connectionString: operatorUrl(config), max: 2, role: 'djinnd_operator' }, log);
  try {
    return await work(pool, config);
  } catch (error) {
    throw explain(error, config);
  } finally {
    await pool.end();
  }
}

/** Turns what the database says into words for the person at the command line. */
export function explain(error: unknown, config: Config): unknown {
  if (error instanceof Problem) return new CommandError(error.message);
  if (!(error instanceof Error)) return error;
  const code = (error as { code?: string }).code;
  if (config.databaseUrl !== null && (/^(28...|3D000)$/.test(code ?? '') || /SSL/.test(error.message))) {
    return new CommandError(
      `the database of DATABASE_URL refuses this login (${error.message}): check its user, password, database and sslmode`,
    );
  }
  if (code === 'EACCES' || code === '28000') {
    return new CommandError(
      `this user may not use the database of ${config.runDir} (${error.message}): run it as root`,
    );
  }
  if (isDatabaseAway(error)) {
    const where =
      config.databaseUrl === null
        ? `the embedded database of ${config.runDir}`
        : 'the database of DATABASE_URL';
    const hint =
      config.databaseUrl === null
        ? 'is `djinnd start` running, as this user, under this --instance?'
        : 'is the server running and reachable?';
    return new CommandError(`${where} does not answer (${error.message}): ${hint}`);
  }
  if (code === '42P01') return new CommandError(`${error.message}: run \`djinnd migrate\` first`);
  return error;
}
