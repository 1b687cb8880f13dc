// `djinnd start`: takes the instance, enters its own namespace and scope when it is root, and runs the parent.
import { mkdirSync } from 'node:fs';
import { userInfo } from 'node:os';
import { join } from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';
import { askSpawner } from '../ask-spawner.ts';
import { type Config, loadConfig, refusePlainListen } from '../config.ts';
import { createLogger, type Logger } from '../log.ts';
import { makeDirectories, places, removeRunFiles } from '../parent/directories.ts';
import { type Lock, takeLock } from '../parent/lock.ts';
import { Parent, unbindApp } from '../parent/parent.ts';
import { reenter } from '../parent/reenter.ts';
import { DAEMON_USER, DATABASE_USER, ensureUser } from '../parent/users.ts';
import { REQUIRED } from '../spawner/required-controls.ts';
import { type CommandContext, CommandError, parseCommandArgs, stopSignal } from './command.ts';

export const help = `Runs database, spawner and daemon, and starts each again when it dies.

Usage: djinnd [--instance NAME] start

As root: the spawner runs as root, the daemon as user djinnd, the embedded Postgres as user djinnd-pg (both are created
when missing), all from a read-only view of this installation. On a machine with systemd everything lives in one
delegated scope, djinnd.scope. As another user: everything runs as that user, and what is then not isolated is said.

Settings come from the environment: DATABASE_URL (default: embedded Postgres), DJINND_LISTEN (127.0.0.1:8420),
DJINND_ENFORCEMENT (strict or best-effort), DJINN_API_KEY, DJINN_API_BASE, DJINN_MODEL and others; see docs/settings.md.

TERM, INT and HUP stop it in order: the daemon first, then the spawner with its jobs, then the database.
Exit codes: 0 stopped when asked to, 1 failed, 2 wrong usage.
`;

const APP_ROOT = join(import.meta.dirname, '../..');

export async function run(args: string[], context: CommandContext): Promise<number> {
  const { values } = parseCommandArgs(args, { entered: { type: 'boolean', default: false } });
  process.umask(0o022); // what is made for other users to read must not depend on the caller's shell
  const config = loadConfig(context.env);
  refusePlainListen(config);
  const log = createLogger(config, 'start');
  const uid = process.getuid?.() ?? 0;
  try {
    makeDirectories(config, uid);
  } catch (error) {
    throw new CommandError(`the directories of this instance cannot be made: ${(error as Error).message}`);
  }
  const stateLock = lockOr(config.stateDir);
  const runLock = lockOr(config.runDir);
  if (uid !== 0) return serveUntilStopped(config, log, { stateLock, runLock, entered: false });
  const { app } = places(config);
  if (!values.entered) {
    await ensureUser(DAEMON_USER, log);
    await ensureUser(DATABASE_USER, log);
    mkdirSync(app, { recursive: true });
    const args = ['start', '--entered'];
    await reenter({ config, appRoot: APP_ROOT, appDir: app, user: DAEMON_USER, args, env: context.env });
  }
  if (APP_ROOT !== app) throw new CommandError('--entered is for djinnd start itself');
  return serveUntilStopped(config, log, { stateLock, runLock, entered: true });
}

function lockOr(dir: string): Lock {
  const lock = takeLock(dir);
  if (lock === null) {
    throw new CommandError(`another djinnd runs on ${dir}: stop it, or give this one a name with --instance`);
  }
  return lock;
}

interface Held {
  stateLock: Lock;
  runLock: Lock;
  entered: boolean;
}

async function serveUntilStopped(config: Config, log: Logger, held: Held): Promise<number> {
  const signal = stopSignal();
  const ownName = userInfo().username;
  const parent = new Parent({
    config,
    appRoot: APP_ROOT,
    daemonUser: held.entered ? await ensureUser(DAEMON_USER, log) : null,
    databaseUser: held.entered ? await ensureUser(DATABASE_USER, log) : null,
    ownName,
    daemonName: held.entered ? DAEMON_USER : ownName,
    log,
  });
  const started = parent.start().then(
    () => {
      void sayWhatIsHeld(config, log);
      return parent.failed;
    },
    (error: unknown) => (error instanceof Error ? error.message : String(error)),
  );
  const reason = await Promise.race([signal.then(() => null), started]);
  if (reason !== null) log.error({ reason }, 'giving up');
  else log.info({ signal: await signal }, 'stopping');
  let code = reason === null ? 0 : 1;
  await parent.close().catch((error: unknown) => {
    log.error({ err: error }, 'not everything could be stopped or removed');
    code = 1;
  });
  if (held.entered) await unbindApp(config);
  removeRunFiles(config, held.runLock);
  held.stateLock.release();
  return code;
}

const ASK_AGAIN_MS = 500;

/** Once the spawner answers: what of the required controls this machine does not hold, each with its reason and mend. */
async function sayWhatIsHeld({ runDir }: Config, log: Logger): Promise<void> {
  for (;;) {
    const hello = await askSpawner(runDir, 'hello', {}).catch(() => null); // not listening yet
    if (hello !== null) {
      const { mode, controls } = hello.enforcement;
      const missing = REQUIRED.filter((name) => controls[name]?.level !== 'full');
      for (const name of missing) log.warn({ control: name, mode, ...controls[name] }, 'not enforced');
      if (missing.length === 0) log.info({ mode }, 'every required control is enforced');
      return;
    }
    // Must not hold up the end of a process that is being stopped.
    await sleep(ASK_AGAIN_MS, undefined, { ref: false });
  }
}
