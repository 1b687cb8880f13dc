// The way of one tool call: pre (is there such a tool, do the arguments parse, may it run again) → guard → execute →
// post (a well-formed, bounded result). Every way out is a result; only the log can make it reject.
import type { AssistantEntry, ToolCallRecord } from './conversation.ts';
import { judgeCall } from './guards.ts';
import { decideRedo } from './redo.ts';
import { type RunContext, record } from './run-context.ts';
import { excerpt, wellFormed } from './text.ts';
import { boundText } from './tools/text-limit.ts';
import type { Tool, ToolOutcome } from './tools/types.ts';

/** How long a cancelled tool may take to end its processes before the run goes on without it. */
const CANCEL_GRACE_MS = 10_000;
/** Base64 of the 5 MiB that read_image takes. */
const MAX_IMAGE_LENGTH = 7 * 1024 * 1024;
const IMAGE_TYPE = /^image\/(png|jpeg|gif|webp)$/;

export const failed = (content: string): ToolOutcome => ({ content, isError: true });
export const NOT_RUN = failed('not run: the run was cancelled');

/** A call that passed: its tool and the arguments, exactly as the model wrote them. */
export interface ReadyCall {
  tool: Tool;
  args: Record<string, unknown>;
}
/** A call that does not run, and why. `refused`: by a guard. */
export interface AnsweredCall {
  outcome: ToolOutcome;
  refused?: true;
}

export const findTool = (context: RunContext, call: ToolCallRecord): Tool | undefined =>
  context.tools.find((one) => one.name === call.name);

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

function noSuchTool(context: RunContext, call: ToolCallRecord): ToolOutcome {
  const names = context.tools.map((one) => one.name).join(', ');
  return failed(`there is no tool ${JSON.stringify(excerpt(call.name, 100))}; available: ${names || 'none'}`);
}

/** Pre and guard; what may run has its `tool_started` record when this resolves. */
export async function prepareCall(
  context: RunContext,
  round: AssistantEntry,
  call: ToolCallRecord,
): Promise<ReadyCall | AnsweredCall> {
  if (round.data.finish === 'length')
    return { outcome: failed('not run: the answer was cut at the output limit before its end') };
  const tool = findTool(context, call);
  if (tool === undefined) return { outcome: noSuchTool(context, call) };
  const parsed = parseArguments(call);
  if ('error' in parsed) return { outcome: parsed.error };
  const { signal, toolContext, sessionId } = context;
  const { cwd } = toolContext;
  const decision = await decideRedo(round.started.get(call.id), context.redo, { args: parsed.args, cwd });
  if (decision !== 'run') return { outcome: decision };
  const seen = { sessionId, id: call.id, name: tool.name, effect: tool.effect, cwd, signal };
  const reason = await judgeCall(context.guards, seen, call.arguments.trim() === '' ? '{}' : call.arguments);
  if (signal.aborted) return { outcome: NOT_RUN };
  if (reason !== null) return { outcome: failed(`not allowed: ${reason}`), refused: true };
  const plan = (await tool.plan?.(parsed.args, toolContext)) ?? null;
  const started = {
    callId: call.id,
    name: tool.name,
    effect: tool.effect,
    ...(plan === null ? {} : { plan }),
  };
  await record(context, 'tool_started', started, { durable: tool.effect !== 'pure' });
  return { tool, args: parsed.args };
}

/** Waits for a tool; once cancelled, only for a while. A tool that throws is an error result. Never rejects. */
export async function executeCall({ tool, args }: ReadyCall, context: RunContext): Promise<ToolOutcome> {
  const { signal } = context;
  if (signal.aborted) return NOT_RUN;
  let timer: NodeJS.Timeout | undefined;
  let cancel = (): void => {};
  const givenUp = new Promise<ToolOutcome>((resolve) => {
    cancel = () => {
      timer = setTimeout(() => resolve(failed('cancelled; the tool did not end in time')), CANCEL_GRACE_MS);
    };
  });
  signal.addEventListener('abort', cancel, { once: true });
  try {
    return settle(await Promise.race([tool.run(args, context.toolContext), givenUp]));
  } catch (error) {
    return settle(failed(`the tool failed: ${error instanceof Error ? error.message : String(error)}`));
  } finally {
    clearTimeout(timer);
    signal.removeEventListener('abort', cancel);
  }
}

/** Post: what any tool gave as a result that can be stored and sent. */
export function settle(given: ToolOutcome): ToolOutcome {
  // Tools of other programs may be plain JavaScript.
  const { content, isError, image } = (given ?? {}) as Partial<Record<keyof ToolOutcome, unknown>>;
  if (typeof content !== 'string') return failed('the tool gave no result');
  const result = { content: boundText(wellFormed(content)), isError: isError === true };
  if (image === undefined || image === null) return result;
  const { mediaType, data } = image as Record<string, unknown>;
  const fits = typeof data === 'string' && data.length <= MAX_IMAGE_LENGTH;
  if (!fits || typeof mediaType !== 'string' || !IMAGE_TYPE.test(mediaType)) {
    return failed('the tool gave an image that is too large or of no known type');
  }
  return { ...result, image: { mediaType, data } };
}
