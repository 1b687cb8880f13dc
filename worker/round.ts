// Runs the calls of one answer and writes a result for each, in their order: calls without effect up to five at a
// time, the others alone. A failing tool is a result, never the end of the run. Asks no model.
import type { AssistantEntry, ToolCallRecord } from './conversation.ts';
import { repeatNote } from './repeats.ts';
import { type RunContext, record, throwIfCancelled } from './run-context.ts';
import { wellFormed } from './text.ts';
import { type AnsweredCall, executeCall, findTool, NOT_RUN, prepareCall } from './tool-call.ts';
import { withNote } from './tools/text-limit.ts';

const PARALLEL_CALLS = 5;

/** Neighbours without effect go together; a call with one sees all before it done and none after it begun. */
function batchesOf(context: RunContext, calls: ToolCallRecord[]): ToolCallRecord[][] {
  const batches: ToolCallRecord[][] = [];
  let open: ToolCallRecord[] = [];
  for (const call of calls) {
    const isPure = (findTool(context, call)?.effect ?? 'pure') === 'pure';
    if (!isPure || open.length === 0 || open.length === PARALLEL_CALLS) {
      open = [];
      batches.push(open);
    }
    open.push(call);
    if (!isPure) open = [];
  }
  return batches;
}

async function finishCall(
  context: RunContext,
  round: AssistantEntry,
  call: ToolCallRecord,
  { outcome, refused }: AnsweredCall,
): Promise<void> {
  const { isError, image } = outcome;
  const given = wellFormed(outcome.content);
  const note = repeatNote(
    context.conversation,
    round,
    { callId: call.id, content: given, isError },
    context.repeats,
  );
  const content = note === null ? given : withNote(given, note);
  await record(
    context,
    'tool_result',
    {
      callId: call.id,
      name: call.name,
      content,
      isError,
      ...(image === undefined ? {} : { image }),
      ...(refused ? { refused } : {}),
      ...(context.signal.aborted ? { interrupted: true as const } : {}),
    },
    { durable: refused === true },
  );
  context.emit({ type: 'tool_result', id: call.id, name: call.name, content, isError });
  await context.drained();
}

/** The log takes one record at a time, so calls are prepared and answered one by one; only their bodies overlap. */
async function runBatch(context: RunContext, round: AssistantEntry, batch: ToolCallRecord[]): Promise<void> {
  const running: Promise<AnsweredCall>[] = [];
  try {
    for (const call of batch) {
      // After a cancellation the rest of the round is answered too, or a later run would begin it.
      const prepared = context.signal.aborted
        ? { outcome: NOT_RUN }
        : await prepareCall(context, round, call);
      running.push(
        'outcome' in prepared
          ? Promise.resolve(prepared)
          : executeCall(prepared, context).then((outcome) => ({ outcome })),
      );
    }
    for (const [index, call] of batch.entries()) {
      await finishCall(context, round, call, (await running[index]) as AnsweredCall);
    }
  } finally {
    await Promise.all(running);
  }
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
  for (const batch of batchesOf(context, calls)) await runBatch(context, round, batch);
  throwIfCancelled(context.signal);
}
