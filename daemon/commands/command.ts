// The shape of a subcommand, its two kinds of refusal, and how a long-running one waits for its end. Never ends the process.
import { parseArgs } from 'node:util';
import type { Env } from '../config.ts';

/** What main.ts gives to a subcommand. */
export interface CommandContext {
  env: Env;
  /** Writes to stdout; resolves once it is handed to the system, so that a slow reader slows the writer. */
  write(text: string | Buffer): Promise<void>;
  /** Writes to stderr. */
  note(text: string): void;
}

/** Exit codes of every subcommand: 0 done, 1 failed, 2 wrong usage. */
export interface CommandModule {
  help: string;
  run(args: string[], context: CommandContext): Promise<number>;
}

/** Ends the command with 2 and a hint at --help. */
export class UsageError extends Error {}
/** Ends the command with 1 and its message alone: an expected failure, said in words that help. */
export class CommandError extends Error {}

type Options = NonNullable<Parameters<typeof parseArgs>[0]>['options'];

/** Parses the arguments strictly; whatever is wrong with them is a UsageError. */
export function parseCommandArgs<const T extends NonNullable<Options>>(
  args: string[],
  options: T,
  positionals = 0,
) {
  const config = { args, options, allowPositionals: true, strict: true } as const;
  let parsed: ReturnType<typeof parseArgs<typeof config>>;
  try {
    parsed = parseArgs(config);
  } catch (error) {
    throw new UsageError(inWords(error as Error & { code?: string }));
  }
  if (parsed.positionals.length > positionals) {
    throw new UsageError(`unexpected argument "${parsed.positionals[positionals]}"`);
  }
  return parsed;
}

/** Node advises to put unknown options behind `--`, which would not help here. */
function inWords({ code, message }: Error & { code?: string }): string {
  const option = /'(-[^' ]*)/.exec(message)?.[1];
  return code === 'ERR_PARSE_ARGS_UNKNOWN_OPTION' ? `there is no option ${option ?? ''}` : message;
}

/**
 * Resolves with the first TERM, INT or HUP, and keeps the process alive until then. Later ones are swallowed: an
 * orderly stop goes on.
 */
export function stopSignal(): Promise<NodeJS.Signals> {
  return new Promise((resolve) => {
    const alive = setInterval(() => {}, 2 ** 30);
    for (const signal of ['SIGTERM', 'SIGINT', 'SIGHUP'] as const) {
      process.on(signal, () => {
        clearInterval(alive);
        resolve(signal);
      });
    }
  });
}
