// What to do with a tool call during which an earlier run died. Changes nothing; reads at most one file.
import { resolve } from 'node:path';
import type { Redo } from './run-options.ts';
import type { RecordData } from './session/record.ts';
import type { ToolOutcome } from './tools/types.ts';

type Started = RecordData['tool_started'];

const interrupted = (detail: string): ToolOutcome => ({ content: `interrupted: ${detail}`, isError: true });

/**
 * The file is looked at where the call would write now: a run may be resumed in another folder, to which its files
 * were moved or not.
 */
async function redoWrite(
  plan: NonNullable<Started['plan']>,
  args: Record<string, unknown>,
  cwd: string,
): Promise<'run' | ToolOutcome> {
  const path = typeof args.path === 'string' ? resolve(cwd, args.path) : plan.path;
  let now: string | null;
  try {
    const { hashFile } = await import('./tools/file-hash.ts');
    now = await hashFile(path, cwd);
  } catch (error) {
    return interrupted(
      `the run died during this call, and the file cannot be read: ${(error as Error).message}`,
    );
  }
  if (now === plan.after) return { content: `The file ${path} was written.`, isError: false };
  if (now === plan.before) return 'run';
  const where =
    path === plan.path ? '' : ` (the run was resumed in another folder; it was to write ${plan.path})`;
  return interrupted(
    `the run died during this call, and the file is neither as it was nor as it was to be${where}: it was changed by something else. Read it before you go on.`,
  );
}

/**
 * `run` when the call may run (again), else the result it gets. A call without `started` never began. `auto`: tools
 * without effect run again, writes by the hashes of their file, commands never by themselves. `always` runs everything
 * again, `never` nothing.
 */
export async function decideRedo(
  started: Started | undefined,
  redo: Redo,
  { args, cwd }: { args: Record<string, unknown>; cwd: string },
): Promise<'run' | ToolOutcome> {
  if (started === undefined || redo === 'always') return 'run';
  if (redo === 'never') return interrupted('the run died during this call; it was not run again.');
  if (started.effect === 'pure') return 'run';
  if (started.effect === 'write' && started.plan !== undefined) return redoWrite(started.plan, args, cwd);
  if (started.effect === 'write') {
    return interrupted('the run died during this call; check whether the file was changed.');
  }
  return interrupted(
    'the run died while this command ran. It may have run in part; check its effects before running it again.',
  );
}
