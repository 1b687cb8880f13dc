// The commands besides running a prompt: `djinn replay`, `fork`, `sessions`, `rerun`. Loaded only when one is asked for.
import { UsageError } from '../arguments.ts';
import { StoreError } from '../session/store.ts';
import type { CommandPorts } from './ports.ts';

type Run = (words: readonly string[], ports: CommandPorts) => Promise<number>;

const COMMANDS: Record<string, () => Promise<{ usage: string; run: Run }>> = {
  replay: () => import('./replay.ts'),
  fork: () => import('./fork.ts'),
  sessions: () => import('./sessions.ts'),
  rerun: () => import('./rerun.ts'),
};

const EXIT_FAILED = 1;
const EXIT_USAGE = 2;

/** True when the first word of the command line is a command's name. */
export const isCommand = (word: string | undefined): boolean =>
  word !== undefined && Object.hasOwn(COMMANDS, word);

/** Runs `djinn NAME WORDS…`; gives the exit code. Failures are one line on stderr. */
export async function runCommand(
  name: string,
  words: readonly string[],
  ports: CommandPorts,
): Promise<number> {
  const { usage, run } = await (COMMANDS[name] as (typeof COMMANDS)[string])();
  if (words.includes('--help') || words.includes('-h')) {
    await ports.out(usage);
    return 0;
  }
  try {
    return await run(words, ports);
  } catch (error) {
    if (error instanceof UsageError) {
      ports.say(`djinn ${name}: ${error.message}\n(djinn ${name} --help shows the usage)`);
      return EXIT_USAGE;
    }
    if (ports.signal.aborted) return EXIT_FAILED;
    if (!(error instanceof StoreError)) throw error;
    ports.say(`djinn ${name}: ${error.message}`);
    return EXIT_FAILED;
  }
}
