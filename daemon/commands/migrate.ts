// `djinnd migrate`: brings the database to this version, forward only.
import { join } from 'node:path';
import { loadConfig } from '../config.ts';
import { EMBEDDED_SUPERUSER } from '../db/embedded-cluster.ts';
import { MigrationError, migrate } from '../db/migrate.ts';
import { RolesError } from '../db/roles.ts';
import { createLogger } from '../log.ts';
import { embeddedUrl } from '../parent/processes.ts';
import { type CommandContext, CommandError, parseCommandArgs } from './command.ts';
import { explain } from './database.ts';

export const help = `Brings the database to this version: tables, roles, the queue's schema. Forward only, safe to repeat.

Usage: djinnd [--instance NAME] migrate

DATABASE_URL names the database; without it the embedded one of the instance is meant. \`djinnd start\` does this by
itself. Exit codes: 0 the database is at this version, 1 it is not, 2 wrong usage.
`;

export async function run(args: string[], context: CommandContext): Promise<number> {
  parseCommandArgs(args, {});
  const config = loadConfig(context.env);
  const log = createLogger(config, 'migrate');
  const connectionString = config.databaseUrl ?? embeddedUrl(config, EMBEDDED_SUPERUSER);
  const dir = join(import.meta.dirname, '../../migrations');
  try {
    const { applied } = await migrate({ connectionString }, dir, log);
    log.info(
      { applied },
      applied.length === 0 ? 'the database is at this version' : 'the database was migrated',
    );
    return 0;
  } catch (error) {
    if (error instanceof MigrationError || error instanceof RolesError) throw new CommandError(error.message);
    throw explain(error, config);
  }
}
