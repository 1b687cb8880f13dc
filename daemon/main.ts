// The command line: picks a subcommand, loads only that, turns its result into the exit code. Alone ends the process.
import { type CommandContext, CommandError, type CommandModule, UsageError } from './commands/command.ts';
import { ConfigError, processEnv } from './config.ts';

const HELP = `djinnd runs headless AI agents for many tenants on one machine.

Usage: djinnd [--instance NAME] COMMAND [ARGUMENT...]

  start      database, spawner and daemon together, watched by one small parent
  serve      the daemon alone (HTTP, jobs, model gateway); unprivileged
  spawner    the spawner alone (sandboxes, cgroups, users); root
  migrate    brings the database to this version
  doctor     what this machine can enforce, and how to mend what it cannot
  sql        runs SQL as the operator role
  tenant     create, list, limits
  key        create, revoke
  demo       one job from start to end, on a throw-away instance

--instance NAME works on a daemon with directories of its own (/var/lib/djinnd-NAME, /run/djinnd-NAME).
djinnd COMMAND --help says more. Exit codes: 0 done, 1 failed, 2 wrong usage or a setting that cannot be used.
`;

const COMMANDS: Record<string, () => Promise<CommandModule>> = {
  start: () => import('./commands/start.ts'),
  serve: () => import('./commands/serve.ts'),
  spawner: () => import('./commands/spawner.ts'),
  migrate: () => import('./commands/migrate.ts'),
  doctor: () => import('./commands/doctor.ts'),
  sql: () => import('./commands/sql.ts'),
  tenant: () => import('./commands/tenant.ts'),
  key: () => import('./commands/key.ts'),
  demo: () => import('./commands/demo.ts'),
};

/** What a usage error points to. */
let tryHelp = 'djinnd --help';

/** Runs one command line and returns its exit code. */
async function runCommandLine(args: string[], context: CommandContext): Promise<number> {
  const rest = [...args];
  if (rest[0] === '--instance' || rest[0]?.startsWith('--instance=')) {
    const option = rest.shift() ?? '';
    const name = option.includes('=') ? option.slice(option.indexOf('=') + 1) : rest.shift();
    if (name === undefined) throw new UsageError('--instance needs a name');
    context.env = { ...context.env, DJINND_INSTANCE: name };
  }
  const name = rest.shift();
  if (name === '--help' || name === '-h' || name === 'help') {
    await context.write(HELP);
    return 0;
  }
  if (name === '--version') {
    const { default: manifest } = await import('../package.json', { with: { type: 'json' } });
    await context.write(`djinnd ${manifest.version}, Node ${process.versions.node}\n`);
    return 0;
  }
  if (name === undefined) throw new UsageError('no command given');
  const load = Object.hasOwn(COMMANDS, name) ? COMMANDS[name] : undefined;
  if (load === undefined) throw new UsageError(`there is no command "${name}"`);
  const command = await load();
  tryHelp = `djinnd ${name} --help`;
  if (rest.includes('--help') || rest.includes('-h')) {
    await context.write(command.help);
    return 0;
  }
  return command.run(rest, context);
}

function report(error: unknown): number {
  if (error instanceof UsageError) {
    process.stderr.write(`djinnd: ${error.message}\nTry: ${tryHelp}\n`);
    return 2;
  }
  if (error instanceof ConfigError) {
    process.stderr.write(`djinnd: ${error.message}\n`);
    return 2;
  }
  if (error instanceof CommandError) {
    process.stderr.write(`djinnd: ${error.message}\n`);
    return 1;
  }
  process.stderr.write(
    `djinnd: ${error instanceof Error ? (error.stack ?? error.message) : String(error)}\n`,
  );
  return 1;
}

function write(text: string | Buffer): Promise<void> {
  return new Promise((resolve, reject) => {
    process.stdout.write(text, (error) => (error ? reject(error) : resolve()));
  });
}

// Node would open its debugger on a port of the machine, which a job with the machine's network can reach.
process.on('SIGUSR1', () => {});
// A reader that goes away (`djinnd sql … | head`) is its own business: the command goes on to its end.
process.stdout.on('error', () => {});
process.stderr.on('error', () => {});
const code = await runCommandLine(process.argv.slice(2), {
  env: processEnv(),
  write: (text) => write(text).catch(() => {}),
  note: (text) => process.stderr.write(text),
}).catch(report);
await write('').catch(() => {});
process.exit(code);
