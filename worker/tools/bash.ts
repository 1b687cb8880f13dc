// The bash tool: one command line, held by the sandbox alone.
import { existsSync } from 'node:fs';
import { mkdir, stat } from 'node:fs/promises';
import { defineTool, ToolError } from './define-tool.ts';
import { watchMemory } from './memory-events.ts';
import { runProcess, type ShellEnd } from './run-process.ts';
import { withNote } from './text-limit.ts';

const DEFAULT_TIMEOUT_SECONDS = 120;
const MAX_TIMEOUT_SECONDS = 3600;
/** The kernel takes at most 128 KiB in one argument; see MAX_ARG_STRLEN in execve(2). */
const MAX_COMMAND_BYTES = 128 * 1024 - 1;
const EDITORS = ['EDITOR', 'VISUAL', 'GIT_EDITOR', 'GIT_SEQUENCE_EDITOR'];

interface Arguments {
  command: string;
  timeout_seconds?: number | null;
}

export const bashTool = defineTool<Arguments>({
  name: 'bash',
  description:
    'Runs a command line with bash in the working directory and returns its output (stdout and stderr together) ' +
    'and exit code. There is no terminal and no input. Over 50 KiB of output only the first and last 25 KiB are ' +
    'kept. The call returns when the shell exits; processes started with & go on in the background.',
  parameters: {
    type: 'object',
    properties: {
      command: { type: 'string', minLength: 1, description: 'The command line.' },
      timeout_seconds: {
        type: 'integer',
        minimum: 1,
        maximum: MAX_TIMEOUT_SECONDS,
        description: `After this time the command and its children are ended. Default ${DEFAULT_TIMEOUT_SECONDS}.`,
      },
    },
    required: ['command'],
    additionalProperties: false,
  },
  effect: 'exec',
  async run({ command, timeout_seconds }, { cwd, signal, toolsCgroup, background }) {
    if (Buffer.byteLength(command) > MAX_COMMAND_BYTES) {
      throw new ToolError('the command is longer than 128 KiB; write it to a script file and run that');
    }
    if (command.includes('\0')) throw new ToolError('the command contains a NUL byte');
    const remade = await ensureDirectory(cwd);
    const timeoutSeconds = timeout_seconds ?? DEFAULT_TIMEOUT_SECONDS;
    const memory = watchMemory(toolsCgroup?.events);
    try {
      const end = await runProcess({
        argv: [existsSync('/bin/bash') ? '/bin/bash' : '/bin/sh', '-c', command],
        cwd,
        env: toolEnvironment(process.env),
        timeoutMs: timeoutSeconds * 1000,
        signal,
        procsFile: toolsCgroup?.procs,
      });
      background?.push(...end.left);
      const notes = notesOf(end, memory.kills(wasKilled(end)), timeoutSeconds);
      if (remade) notes.unshift('[the working directory had been removed; it was made again, empty]');
      const isError =
        end.cause !== 'exited' || end.code !== 0 || notes.some((note) => note.includes('out of memory'));
      const output = end.output === '' && notes.length === 0 ? '(no output)' : end.output;
      return { content: notes.reduce(withNote, output), isError };
    } finally {
      memory.close();
    }
  },
});

/**
 * What tools inherit: the worker's own environment without its settings, one of which is the API key, and without
 * editors. Nobody is there to type: git, which would open the editor of its configuration, gets one that fails, and
 * `TERM` says that there is no terminal.
 */
function toolEnvironment(env: NodeJS.ProcessEnv): NodeJS.ProcessEnv {
  const kept = Object.entries(env).filter(([name]) => !name.startsWith('DJINN_') && !EDITORS.includes(name));
  return { ...Object.fromEntries(kept), TERM: 'dumb', GIT_EDITOR: 'false' };
}

/** A command may remove the directory that it runs in; the next one would fail to start with a misleading ENOENT. */
async function ensureDirectory(cwd: string): Promise<boolean> {
  const found = await stat(cwd).catch(() => null);
  if (found?.isDirectory()) return false;
  if (found !== null) throw new ToolError(`the working directory ${cwd} is no directory any more`);
  await mkdir(cwd).catch((error: NodeJS.ErrnoException) => {
    throw new ToolError(`the working directory ${cwd} is gone and cannot be made again (${error.code})`);
  });
  return true;
}

const wasKilled = (end: ShellEnd): boolean => end.signal === 'SIGKILL' || end.code === 137;

function notesOf(end: ShellEnd, memoryKills: number, timeoutSeconds: number): string[] {
  const notes: string[] = [];
  if (memoryKills > 0) {
    notes.push(
      `[out of memory: the tools reached their memory limit and the kernel killed ${memoryKills} of their ` +
        'processes; use less memory or work in smaller pieces]',
    );
  }
  if (end.cause === 'timeout') {
    notes.push(`[timed out after ${timeoutSeconds} s; the command and its children were ended]`);
  } else if (end.cause === 'cancelled') {
    notes.push('[cancelled; the command and its children were ended]');
  } else if (wasKilled(end)) {
    const why = memoryKills > 0 ? '' : ', by whom is not known';
    notes.push(`[exit code 137: killed by SIGKILL${why}]`);
  } else if (end.signal !== null) {
    notes.push(`[ended by ${end.signal}]`);
  } else if (end.code !== 0) {
    notes.push(`[exit code ${end.code}]`);
  }
  if (end.left.length > 0) {
    const count = end.left.length === 1 ? '1 process goes' : `${end.left.length} processes go`;
    notes.push(
      end.cause === 'exited' ? `[${count} on in the background]` : `[${count} on: KILL had no effect]`,
    );
  }
  return notes;
}
