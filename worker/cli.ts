// The process around one run: command line in, events out, signals, exit code. The only file of the worker that ends
// the process, installs signal handlers or writes to stdout.
import { writeSync } from 'node:fs';
import { type Command, readArguments, USAGE, UsageError } from './arguments.ts';
import { isCommand, runCommand } from './commands/index.ts';
import type { CommandPorts } from './commands/ports.ts';
import { isRetryable } from './error-codes.ts';
import { RunError } from './failure.ts';
import { JobError, readJob } from './job-input.ts';
import { promptOptions } from './prompt-options.ts';
import type { WorkerEvent } from './protocol.ts';
import { run } from './run.ts';
import type { Log, RunOptions } from './run-options.ts';
import { SettingsError, sessionDir } from './settings.ts';
import { readStdin } from './stdin.ts';
import { createLineWriter, type LineWriter } from './stdout.ts';
import { version } from './version.ts';

const EXIT_FAILED = 1;
const EXIT_USAGE = 2;
const SIGNALS = { SIGHUP: 129, SIGINT: 130, SIGTERM: 143 } as const;
/** After a signal: how long the run may take to end, and how long the reader may take the last lines. */
const SIGNAL_LIMIT_MS = 15_000;
const SAME_SIGNAL_MS = 2000;
const LAST_LINES_MS = 3000;
/** How long handles that nobody closed may hold the loop open at the end. */
const LOOP_LIMIT_MS = 500;

const log: Log = (level, message, fields) => {
  try {
    writeSync(2, `${JSON.stringify({ level, time: new Date().toISOString(), message, ...fields })}\n`);
  } catch {
    // Nobody reads the log, or its pipe is full: the run goes on.
  }
};

/** Everything that can stop the process early, and the exit code that it then has. */
interface Stop {
  signal: AbortSignal;
  /** Set by the first signal or the loss of the reader. */
  exitCode: number | null;
  abort(error: RunError, exitCode: number): void;
}

function watchStops(): Stop {
  const controller = new AbortController();
  let stoppedMs = 0;
  const stop: Stop = {
    signal: controller.signal,
    exitCode: null,
    abort(error, exitCode) {
      stop.exitCode ??= exitCode;
      controller.abort(error);
    },
  };
  for (const [name, code] of Object.entries(SIGNALS)) {
    process.on(name, () => {
      // A terminal and a parent that passes it on send one signal twice; only a later one is a wish to hurry.
      if (stop.exitCode !== null && Date.now() - stoppedMs < SAME_SIGNAL_MS) return;
      if (stop.exitCode !== null) process.exit(stop.exitCode);
      stoppedMs = Date.now();
      const end = name === 'SIGINT' ? 'interrupted' : 'terminated';
      stop.abort(new RunError(end, `stopped by ${name}`), code);
      setTimeout(() => process.exit(code), SIGNAL_LIMIT_MS).unref();
    });
  }
  process.on('uncaughtException', (error) => {
    log('error', 'unexpected error', { stack: error.stack ?? String(error) });
    stop.abort(new RunError('internal', 'unexpected error; see the log'), EXIT_FAILED);
  });
  return stop;
}

/** Resolves with the text of stdin, or rejects as soon as the process is to stop. */
function readInput(toEnd: boolean, stop: Stop): Promise<string> {
  const stopped = new Promise<never>((_, reject) => {
    if (stop.signal.aborted) reject(stop.signal.reason);
    else stop.signal.addEventListener('abort', () => reject(stop.signal.reason), { once: true });
  });
  return Promise.race([readStdin(toEnd), stopped]);
}

/** A reader that takes nothing must not keep a run that is to end. */
function roomOrStop(room: Promise<void>, signal: AbortSignal): Promise<void> {
  return new Promise((resolve) => {
    const done = (): void => {
      signal.removeEventListener('abort', done);
      resolve();
    };
    if (signal.aborted) done();
    else signal.addEventListener('abort', done);
    void room.then(done);
  });
}

/** Runs and writes the events; gives the exit code. */
async function runPrompt(command: Command, stop: Stop, writer: LineWriter): Promise<number> {
  let options: RunOptions;
  try {
    options =
      command.kind === 'prompt'
        ? await promptOptions(command, () => readInput(true, stop))
        : readJob(await readInput(false, stop));
  } catch (error) {
    return failBeforeRun(error, command, writer);
  }
  let last: WorkerEvent | undefined;
  for await (const event of run({ ...options, signal: stop.signal, log })) {
    last = event;
    const room = writer.write(JSON.stringify(event));
    if (room !== undefined) await roomOrStop(room, stop.signal);
  }
  if (last?.type === 'done') return 0;
  if (last?.type === 'error') log('error', last.message, { code: last.code });
  return EXIT_FAILED;
}

/** Wrong usage, settings or job: said on stderr and as the one event on stdout. */
function failBeforeRun(error: unknown, command: Command | null, writer: LineWriter): number {
  const known = error instanceof UsageError || error instanceof SettingsError || error instanceof JobError;
  const code =
    error instanceof RunError
      ? error.code
      : error instanceof JobError || command?.kind === 'job'
        ? 'bad_job'
        : 'usage';
  const message = error instanceof Error ? error.message : String(error);
  const retryable = isRetryable(code);
  void writer.write(JSON.stringify({ type: 'error', code, message, retryable }));
  if (known && command?.kind !== 'job') writeSync(2, `djinn: ${message}\n(djinn --help shows the usage)\n`);
  else log('error', message, { code });
  return known && command?.kind !== 'job' ? EXIT_USAGE : EXIT_FAILED;
}

function readCommand(words: readonly string[], writer: LineWriter): Command | number {
  try {
    return readArguments(words);
  } catch (error) {
    return failBeforeRun(error, null, writer);
  }
}

/**
 * Ends the process by leaving it nothing to do. process.exit joins V8's background threads, and one that waits for a
 * garbage collection of the main thread is never done (seen on Node 24: the process stays for ever); Node's own way
 * out stops them first. Only what still holds the loop open after a while is cut off.
 */
function endProcess(exitCode: number): void {
  process.exitCode = exitCode;
  setTimeout(() => process.exit(exitCode), LOOP_LIMIT_MS).unref();
}

/** A command line without a command's name; gives the exit code. */
async function runWords(words: readonly string[], stop: Stop, writer: LineWriter): Promise<number> {
  const command = readCommand(words, writer);
  if (typeof command === 'number') return command;
  if (command.kind === 'prompt' || command.kind === 'job') return runPrompt(command, stop, writer);
  writeSync(1, command.kind === 'help' ? USAGE : `${version}\n`);
  return 0;
}

function commandPorts(stop: Stop, writer: LineWriter): CommandPorts {
  return {
    async out(text) {
      const room = writer.write(text.replace(/\n$/, ''));
      if (room !== undefined) await roomOrStop(room, stop.signal);
    },
    say: (text) => void writeSync(2, `${text}\n`),
    dir: sessionDir(process.env),
    signal: stop.signal,
  };
}

/** Runs the command line and ends the process. Exit codes: see USAGE. */
export async function main(words: readonly string[]): Promise<void> {
  const stop = watchStops();
  const writer = createLineWriter(() =>
    stop.abort(new RunError('output_closed', 'nobody reads the events'), EXIT_FAILED),
  );
  const [name] = words;
  const code =
    name !== undefined && isCommand(name)
      ? await runCommand(name, words.slice(1), commandPorts(stop, writer))
      : await runWords(words, stop, writer);
  // A run that came to its end before the signal could stop it is done; any other ends with the signal's code.
  const exitCode = code === 0 ? 0 : (stop.exitCode ?? code);
  if (stop.exitCode !== null) setTimeout(() => process.exit(exitCode), LAST_LINES_MS).unref();
  await writer.end();
  endProcess(
    stop.exitCode !== null && code === 0 && stop.signal.reason?.code === 'output_closed'
      ? EXIT_FAILED
      : exitCode,
  );
}
