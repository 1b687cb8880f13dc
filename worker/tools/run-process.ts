// Runs one shell command to its end: own session, no terminal, bounded output, and a limit that reaches its children.
// It returns when the shell exits, whoever still holds its output.
import { type ChildProcess, spawn } from 'node:child_process';
import { once } from 'node:events';
import { Readable } from 'node:stream';
import { setTimeout as sleep } from 'node:timers/promises';
import { type CallProcesses, followCall, snapshotGroup } from './call-processes.ts';
import { collectOutput, type Output, streamSource } from './collect-output.ts';
import { describe, ToolError } from './define-tool.ts';
import { openOutputPipe } from './output-pipe.ts';
import { readGroup } from './process-table.ts';
import type { LeftProcess } from './types.ts';

/** Between TERM and KILL: at a timeout, and for a run that must be gone within a second. */
const TERM_GRACE_MS = 1000;
const CANCEL_GRACE_MS = 250;
const POLL_MS = 50;
/** For the rest of a group that the kernel kills for memory. */
const DYING_LIMIT_MS = 500;

// The join comes before exec, so nothing of the command runs outside the group. Descriptor 3 tells a failed join from
// the command's own exit codes.
const PLAIN = 'exec 2>&1; exec "$@" 3>&-';
const JOINED = 'exec 2>&1; if echo 0 > "$0"; then exec "$@" 3>&-; fi; echo refused >&3; exit 1';

export interface ShellCommand {
  /** Program and arguments. */
  argv: string[];
  cwd: string;
  env: NodeJS.ProcessEnv;
  timeoutMs: number;
  signal: AbortSignal;
  /** The tools group's cgroup.procs. */
  procsFile: string | undefined;
}

export interface ShellEnd {
  output: string;
  code: number | null;
  signal: string | null;
  cause: 'exited' | 'timeout' | 'cancelled';
  /** Processes that were not ended: background children, or what KILL did not reach. */
  left: LeftProcess[];
}

/**
 * Runs a command.
 * @throws ToolError when it could not be started, or not in its group: then nothing of it has run.
 */
export async function runProcess(command: ShellCommand): Promise<ShellEnd> {
  const { procsFile } = command;
  const before = snapshotGroup(procsFile);
  const pipe = await openOutputPipe();
  const child = spawnShell(command, pipe?.writeFd);
  const started = await startOf(child);
  pipe?.release();
  const source = pipe?.source ?? streamSource(child.stdout as Readable);
  if (started !== null) {
    source.destroy();
    throw new ToolError(`the command could not be started: ${started}`);
  }
  const exit = exitOf(child);
  const refused = textOf(child.stdio[3]);
  const output = collectOutput(source);
  const processes = followCall(child.pid as number, { procsFile, before, pipe });
  try {
    const cause = await waitForEnd(command, exit, processes);
    await output.settled();
    if ((await refused) !== '') {
      throw new ToolError(`the shell could not join the tools group, so nothing was run: ${output.text()}`);
    }
    const { code, signal } = exit.value ?? { code: null, signal: null };
    const left = await leftOf(child, output, processes, procsFile);
    return { output: output.text(), code, signal, cause, left };
  } finally {
    processes.close();
    output.abandon();
    child.unref();
  }
}

/** With a pipe and no group to join, the command needs nobody before it: one exec less. */
function spawnShell({ argv, cwd, env, procsFile }: ShellCommand, writeFd: number | undefined): ChildProcess {
  const [program = '', ...args] = argv;
  if (procsFile === undefined && writeFd !== undefined)
    return spawn(program, args, { cwd, env, detached: true, stdio: ['ignore', writeFd, writeFd] });
  const script = procsFile === undefined ? PLAIN : JOINED;
  return spawn('/bin/sh', ['-c', script, procsFile ?? 'sh', ...argv], {
    cwd,
    env,
    detached: true,
    stdio: ['ignore', writeFd ?? 'pipe', 'ignore', 'pipe'],
  });
}

/** Null when the shell runs, else why not. */
async function startOf(child: ChildProcess): Promise<string | null> {
  try {
    await once(child, 'spawn');
    return null;
  } catch (error) {
    return describe(error);
  }
}

interface Exit {
  value: { code: number | null; signal: string | null } | undefined;
  done: Promise<void>;
}

function exitOf(child: ChildProcess): Exit {
  const exit: Exit = { value: undefined, done: Promise.resolve() };
  exit.done = new Promise((resolve) => {
    child.once('exit', (code, signal) => {
      exit.value = { code, signal };
      resolve();
    });
  });
  return exit;
}

async function textOf(stream: unknown): Promise<string> {
  if (!(stream instanceof Readable)) return '';
  let text = '';
  stream.on('data', (chunk: Buffer) => {
    text += chunk.toString('latin1');
  });
  // A socket that a killed child resets is simply over.
  await once(stream, 'close').catch(() => {});
  return text;
}

async function waitForEnd(
  { timeoutMs, signal }: ShellCommand,
  exit: Exit,
  processes: CallProcesses,
): Promise<ShellEnd['cause']> {
  let timer: NodeJS.Timeout | undefined;
  let onAbort = () => {};
  const cause = await Promise.race([
    exit.done.then(() => 'exited' as const),
    new Promise<'timeout'>((resolve) => {
      timer = setTimeout(resolve, timeoutMs, 'timeout');
    }),
    new Promise<'cancelled'>((resolve) => {
      onAbort = () => resolve('cancelled');
      signal.addEventListener('abort', onAbort);
      if (signal.aborted) onAbort();
    }),
  ]);
  clearTimeout(timer);
  signal.removeEventListener('abort', onAbort);
  if (cause === 'exited') return cause;
  processes.signal('SIGTERM');
  processes.signal('SIGCONT');
  const graceMs = cause === 'cancelled' ? CANCEL_GRACE_MS : TERM_GRACE_MS;
  for (const endMs = Date.now() + graceMs; Date.now() < endMs && processes.find().length > 0; ) {
    await sleep(POLL_MS);
  }
  // A process in an uninterruptible wait survives even KILL: the call returns all the same.
  if (await processes.kill()) await exit.done;
  return cause;
}

/** The search reads all of /proc, so it is made only when there is a sign that something lives. */
async function leftOf(
  child: ChildProcess,
  output: Output,
  processes: CallProcesses,
  procsFile: string | undefined,
): Promise<LeftProcess[]> {
  const isQuiet = output.ended() && !groupLives(child.pid as number);
  if (isQuiet && (procsFile === undefined || readGroup(procsFile).size === 0)) return [];
  let left = processes.find();
  // A group that the kernel kills for memory does not die all at once.
  const endMs = Date.now() + (child.signalCode === 'SIGKILL' ? DYING_LIMIT_MS : 0);
  for (; left.length > 0 && Date.now() < endMs; left = processes.find()) await sleep(POLL_MS);
  return left.map(({ pid, startTicks }) => ({ pid, startTicks }));
}

function groupLives(groupId: number): boolean {
  try {
    process.kill(-groupId, 0);
    return true;
  } catch {
    return false;
  }
}
