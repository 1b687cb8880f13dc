// `djinnd serve`: the unprivileged daemon in the foreground, until it is told to stop.
import { startApp } from '../app.ts';
import { loadConfig, refusePlainListen } from '../config.ts';
import { createLogger } from '../log.ts';
import { embeddedUrl } from '../parent/processes.ts';
import { type CommandContext, CommandError, parseCommandArgs, stopSignal } from './command.ts';
import { explain } from './database.ts';

export const help = `Runs the daemon alone: HTTP, jobs, model gateway, metrics. Needs a migrated database and a running spawner.

Usage: djinnd [--instance NAME] serve

Give it its own unprivileged user; \`djinnd start\` and the systemd unit do. TERM stops it in order and lets running jobs
go on: the spawner holds them, and the next \`djinnd serve\` takes them up again.
Exit codes: 0 stopped when asked to, 1 failed, 2 wrong usage.
`;

export async function run(args: string[], context: CommandContext): Promise<number> {
  parseCommandArgs(args, {});
  const config = loadConfig(context.env);
  const log = createLogger(config, 'djinnd');
  refusePlainListen(config);
  const signal = stopSignal();
  const app = await startApp(config, config.databaseUrl ?? embeddedUrl(config, 'djinnd_app'), log).catch(
    (error: unknown) => {
      if ((error as { code?: string }).code === 'EADDRINUSE') {
        throw new CommandError(
          `${(error as Error).message}: set DJINND_LISTEN or DJINND_METRICS_LISTEN to a free address`,
        );
      }
      throw explain(error, config);
    },
  );
  log.info({ url: app.url, metrics: app.metricsUrl }, 'djinnd listens');
  log.info({ signal: await signal }, 'stopping');
  await app.close();
  log.info('stopped');
  return 0;
}
