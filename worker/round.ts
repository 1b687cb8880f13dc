// Runs the calls of one answer, one after the other, and writes a result for each. A failing tool is a result, never
// the end of the run. Asks no model.
import type { AssistantEntry, ToolCallRecord } from './conversation.ts';
import { decideRedo } from './redo.ts';
import { type RunContext, record, throwIfCancelled } from './run-context.ts';
import { excerpt, wellFormed } from './text.ts';
import type { Tool, ToolOutcome } from './tools/types.ts';

/** How long a cancelled tool may take to end its processes before the run goes on without it. */
const CANCEL_GRACE_MS = 10_000;

const failed = (content: string): ToolOutcome => ({ content, isError: true });

const NOT_RUN = failed('not run: the run was cancelled');

/** The arguments as an object, or the error result. An empty text means no arguments; nothing is repaired. */
function parseArguments(call: ToolCallRecord): { args: Record<string, unknown> } | { error: ToolOutcome } {
  if (call.arguments.trim() === '') return { args: {} };
  let value: unknown;
  try {
    value = JSON.parse(call.arguments);
  } catch (error) {
    const detail = (error as Error).message;
    return { error: failed(`the arguments are not valid JSON (${detail}): ${excerpt(call.arguments, 500)}`) };
  }
  if (typeof value === 'object' && value !== null && !Array.isArray(value)) {
    return { args: value as Record<string, unknown> };
  }
  return { error: failed(`the arguments are not a JSON object: ${excerpt(call.arguments, 500)}`) };
}

/** Waits for a tool; once cancelled, only for a while. A tool that throws is an error result. */
async function outcomeOf(
  tool: Tool,
  args: Record<string, unknown>,
  context: RunContext,
): Promise<ToolOutcome> {
  let timer: NodeJS.Timeout | undefined;
  let cancel = (): void => {};
  const { signal } = context;
  const givenUp = new Promise<ToolOutcome>((resolve) => {
    cancel = () => {
      timer = setTimeout(() => resolve(failed('cancelled; the tool did not end in time')), CANCEL_GRACE_MS);
    };
  });
  signal.addEventListener('abort', cancel, { once: true });
  try {
    return await Promise.race([tool.run(args, context.toolContext), givenUp]);
  } catch (error) {
    return failed(`the tool failed: ${error instanceof Error ? error.message : String(error)}`);
  } finally {
    clearTimeout(timer);
    signal.removeEventListener('abort', cancel);
  }
}

async function runTool(
  context: RunContext,
  round: AssistantEntry,
  call: ToolCallRecord,
): Promise<ToolOutcome> {
  if (round.data.finish === 'length')
    return failed('not run: the answer was cut at the output limit before its end');
  const tool = context.tools.find((one) => one.name === call.name);
  if (tool === undefined) {
    const names = context.tools.map((one) => one.name).join(', ');
    return failed(
      `there is no tool ${JSON.stringify(excerpt(call.name, 100))}; available: ${names || 'none'}`,
    );
  }
  const parsed = parseArguments(call);
  if ('error' in parsed) return parsed.error;
  const decision = decideRedo(round.started.get(call.id), context.redo);
  if (decision !== 'run') return decision;
  const plan = (await tool.plan?.(parsed.args, context.toolContext)) ?? null;
  const started = {
    callId: call.id,
    name: tool.name,
    effect: tool.effect,
    ...(plan === null ? {} : { plan }),
  };
  await record(context, 'tool_started', started, { durable: tool.effect !== 'pure' });
  return context.signal.aborted ? NOT_RUN : outcomeOf(tool, parsed.args, context);
}

/** Runs the given calls of a round. Rejects with a `cancelled` ModelError after the result of the cancelled call. */
export async function runRound(
  context: RunContext,
  round: AssistantEntry,
  calls: ToolCallRecord[],
): Promise<void> {
  for (const call of calls) {
    context.emit({ type: 'tool_call', id: call.id, name: call.name, arguments: call.arguments });
  }
  for (const call of calls) {
    // After a cancellation the rest of the round is answered too, or a later run would begin it.
    const outcome = context.signal.aborted ? NOT_RUN : await runTool(context, round, call);
    const content = wellFormed(outcome.content);
    const { isError } = outcome;
    await record(context, 'tool_result', {
      callId: call.id,
      name: call.name,
      content,
      isError,
      ...(outcome.image === undefined ? {} : { image: outcome.image }),
      ...(context.signal.aborted ? { interrupted: true as const } : {}),
    });
    context.emit({ type: 'tool_result', id: call.id, name: call.name, content, isError });
    await context.drained();
  }
  throwIfCancelled(context.signal);
}
