// Turns a tool's body into a Tool: arguments are checked before it, every failure becomes an error result after it.
import type { Tool, ToolContext, ToolOutcome, WritePlan } from './types.ts';
import { findProblem, type Schema } from './validate-arguments.ts';

/** An expected failure of a call; its message is written for the model. */
export class ToolError extends Error {}

interface Definition<Arguments> {
  name: string;
  description: string;
  parameters: Schema;
  effect: Tool['effect'];
  run(args: Arguments, context: ToolContext): Promise<ToolOutcome>;
  plan?(args: Arguments, context: ToolContext): Promise<WritePlan>;
}

/** Builds a tool whose `run` resolves in every case and whose body may throw. */
export function defineTool<Arguments>(definition: Definition<Arguments>): Tool {
  const { name, description, parameters, effect, run, plan } = definition;
  const refusal = (args: unknown, context: ToolContext): string | null => {
    if (context.readOnly && effect !== 'pure') return 'not allowed: this run is read-only';
    if (context.signal.aborted) return 'cancelled before it started';
    return findProblem(args, parameters);
  };
  const tool: Tool = {
    name,
    description,
    parameters: parameters as unknown as Record<string, unknown>,
    effect,
    async run(args, context) {
      const refused = refusal(args, context);
      if (refused !== null) return failure(`${name}: ${refused}`);
      try {
        return await run(args as Arguments, context);
      } catch (error) {
        return failure(`${name}: ${describe(error)}`);
      }
    },
  };
  if (plan !== undefined) {
    tool.plan = async (args, context) => {
      if (refusal(args, context) !== null) return null;
      try {
        return await plan(args as Arguments, context);
      } catch {
        // `run` meets the same failure and reports it.
        return null;
      }
    };
  }
  return tool;
}

const failure = (content: string): ToolOutcome => ({ content, isError: true });

const ERRNO_TEXT: Record<string, string> = {
  EACCES: 'permission denied',
  EISDIR: 'is a directory',
  ELOOP: 'too many symbolic links',
  EMFILE: 'too many open files',
  ENAMETOOLONG: 'the path is too long',
  ENOENT: 'no such file or directory',
  ENOSPC: 'no space left on the device',
  ENOTDIR: 'a part of the path is not a directory',
  EPERM: 'operation not permitted',
  EROFS: 'the file system is read-only',
  EDQUOT: 'the disk quota is used up',
};

/** A failure in words, without the internal paths that Node's own messages carry. */
export function describe(error: unknown): string {
  if (error instanceof ToolError) return error.message;
  const code = (error as NodeJS.ErrnoException | null)?.code;
  if (typeof code === 'string' && code in ERRNO_TEXT) return `${ERRNO_TEXT[code]} (${code})`;
  return error instanceof Error ? error.message : String(error);
}
