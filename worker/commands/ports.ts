// What a command may do with the world, and how it reads its words.
import { type ParseArgsConfig, parseArgs } from 'node:util';
import { UsageError } from '../arguments.ts';
import { logPath } from '../session/log-file.ts';

export interface CommandPorts {
  /** Writes text to stdout and waits when its reader is slow. */
  out(text: string): Promise<void>;
  /** Writes a line for people to stderr. */
  say(text: string): void;
  /** The folder of the session logs, null when no home is known. */
  dir: string | null;
  /** Aborted when the process is to stop. */
  signal: AbortSignal;
}

export const jsonLine = (value: unknown): string => `${JSON.stringify(value)}\n`;

/** Reads words with the given options; the rest are names. Throws a UsageError. */
export function readWords<T extends NonNullable<ParseArgsConfig['options']>>(
  words: readonly string[],
  options: T,
) {
  try {
    return parseArgs({ args: [...words], options, strict: true, allowPositionals: true });
  } catch (error) {
    throw new UsageError((error as Error).message);
  }
}

/** The one session that the names are to be, as a path and as an id. Throws a UsageError. */
export function oneSession(names: readonly string[], dir: string | null): { path: string; id: string } {
  const [word, ...more] = names;
  if (word === undefined) throw new UsageError('name a session: its id, or the path of its log');
  if (more.length > 0) throw new UsageError(`only one session at a time, not ${names.length}`);
  const path = logPath(word, dir);
  return { path, id: path.replace(/^.*\//, '').replace(/\.jsonl$/, '') };
}

/** A whole number of at least `least`. Throws a UsageError that names the option. */
export function readNumber(text: string, option: string, least: number): number {
  const value = Number(text);
  if (!/^\d{1,15}$/.test(text) || value < least)
    throw new UsageError(`${option} must be a whole number from ${least}, not ${text}`);
  return value;
}
