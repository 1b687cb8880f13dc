// From a command line with a prompt to the options of its run: settings, files and stdin are read here.
import { readFileSync } from 'node:fs';
import { type Command, UsageError } from './arguments.ts';
import type { RunOptions } from './run-options.ts';
import { readSettings } from './settings.ts';

function readPromptFile(path: string): string {
  try {
    return readFileSync(path, 'utf8');
  } catch (error) {
    throw new UsageError(`cannot read the system prompt: ${(error as Error).message}`);
  }
}

/**
 * Takes the keys out of the environment, so that no tool inherits one. `readInput` reads stdin to its end.
 * Throws a UsageError or SettingsError.
 */
export async function promptOptions(
  command: Command & { kind: 'prompt' },
  readInput: () => Promise<string>,
): Promise<RunOptions> {
  const settings = readSettings(process.env, command);
  // What a tool inherits must not hold a key.
  for (const name of settings.secretVariables) delete process.env[name];
  const prompt = command.prompt === '-' ? await readInput() : command.prompt;
  const { sessionId, cwd, allow, deny, systemPromptFile } = command;
  const { models, sessionDir, coolingFile, idleTimeoutMs, queueTimeoutMs } = settings;
  return {
    models,
    idleTimeoutMs,
    queueTimeoutMs,
    ...(coolingFile === null ? {} : { coolingFile }),
    redo: command.redo,
    readOnly: command.readOnly,
    budget: command.budget,
    tools: { ...(allow === undefined ? {} : { allow }), ...(deny === undefined ? {} : { deny }) },
    session: { provider: 'file', ...(sessionDir === null ? {} : { dir: sessionDir }) },
    ...(prompt === undefined ? {} : { prompt }),
    ...(sessionId === undefined ? {} : { sessionId }),
    ...(cwd === undefined ? {} : { cwd }),
    ...(systemPromptFile === undefined ? {} : { systemPrompt: readPromptFile(systemPromptFile) }),
  };
}
