// `djinnd spawner`: the resident spawner in the foreground, until it is told to stop.
import manifest from '../../package.json' with { type: 'json' };
import { loadConfig } from '../config.ts';
import { createLogger } from '../log.ts';
import { DAEMON_USER, findUser } from '../parent/users.ts';
import { runSpawner } from '../spawner/index.ts';
import { SpawnerRunsError } from '../spawner/lock.ts';
import { type CommandContext, CommandError, parseCommandArgs, stopSignal } from './command.ts';

export const help = `Runs the spawner alone: sandboxes, cgroups, tenant users, spools. Needs root for real isolation.

Usage: djinnd [--instance NAME] spawner

The user djinnd must exist: its socket and the jobs' spools are made for it. TERM ends the running jobs as lost (each is
run once more by the next spawner) and stops. Exit codes: 0 stopped when asked to, 1 failed, 2 wrong usage.
`;

export async function run(args: string[], context: CommandContext): Promise<number> {
  parseCommandArgs(args, {});
  const config = loadConfig(context.env);
  const log = createLogger(config, 'spawner');
  const signal = stopSignal();
  const spawner = await runSpawner({
    ...config,
    daemonUser: await daemonUser(),
    log,
    version: manifest.version,
  }).catch((error: unknown) => {
    throw error instanceof SpawnerRunsError ? new CommandError(error.message) : error;
  });
  log.info({ signal: await signal }, 'stopping');
  await spawner.close();
  log.info('stopped');
  return 0;
}

/** As root the user djinnd, otherwise the one user for all. */
async function daemonUser(): Promise<{ uid: number; gid: number }> {
  const [uid, gid] = [process.getuid?.() ?? 0, process.getgid?.() ?? 0];
  if (uid !== 0) return { uid, gid };
  const found = await findUser(DAEMON_USER);
  if (found === null) {
    throw new CommandError(
      `there is no user ${DAEMON_USER}: useradd --system --no-create-home ${DAEMON_USER}`,
    );
  }
  return found;
}
