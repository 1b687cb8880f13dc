// `djinnd serve`: the unprivileged daemon in the foreground, until it is told to stop.
import { loadConfig } from '../config.ts';
import { createLogger } from '../log.ts';
import { type CommandContext, parseCommandArgs, stopSignal } from './command.ts';

export const help = `Runs the daemon alone: HTTP, jobs, model gateway, metrics. Needs a migrated database and a running spawner.

Usage: djinnd [--instance NAME] serve

Exit codes: 0 stopped when asked to, 1 failed, 2 wrong usage.
`;

export async function run(args: string[], context: CommandContext): Promise<number> {
  parseCommandArgs(args, {});
  const config = loadConfig(context.env);
  const log = createLogger(config, 'djinnd');
  const signal = await stopSignal();
  log.info({ signal }, 'stopped');
  return 0;
}
