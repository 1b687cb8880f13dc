// What to do with a tool call during which an earlier run died. Pure but for hashing one file.
import { createHash } from 'node:crypto';
import { readFileSync } from 'node:fs';
import type { Redo } from './run-options.ts';
import type { RecordData } from './session/record.ts';
import type { ToolOutcome } from './tools/types.ts';

type Started = RecordData['tool_started'];

function hashFile(path: string): string | null {
  try {
    return createHash('sha256').update(readFileSync(path)).digest('hex');
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code === 'ENOENT') return null;
    throw error;
  }
}

const interrupted = (detail: string): ToolOutcome => ({ content: `interrupted: ${detail}`, isError: true });

function redoWrite(plan: Started['plan']): 'run' | ToolOutcome {
  if (plan === undefined)
    return interrupted('the run died during this call; check whether the file was changed.');
  let now: string | null;
  try {
    now = hashFile(plan.path);
  } catch (error) {
    return interrupted(
      `the run died during this call, and the file cannot be read: ${(error as Error).message}`,
    );
  }
  if (now === plan.after) return { content: `The file ${plan.path} was written.`, isError: false };
  if (now === plan.before) return 'run';
  return interrupted('the run died during this call, and the file was changed by something else since.');
}

/**
 * `run` when the call may run (again), else the result it gets. A call without `started` never began. `auto`: tools
 * without effect run again, writes by the hashes of their file, commands never by themselves.
 */
export function decideRedo(started: Started | undefined, redo: Redo): 'run' | ToolOutcome {
  if (started === undefined || redo === 'always') return 'run';
  if (redo === 'never') return interrupted('the run died during this call; it was not run again.');
  if (started.effect === 'pure') return 'run';
  if (started.effect === 'write') return redoWrite(started.plan);
  return interrupted(
    'the run died while this command ran. It may have run in part; check its effects before running it again.',
  );
}
