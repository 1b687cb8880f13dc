// What the parts of one run share, and the one way in which the log grows. Decides nothing.
import type { Spending } from './budget.ts';
import { applyRecord, type Conversation } from './conversation.ts';
import type { Guard } from './guards.ts';
import type { Cooling } from './models/cooling.ts';
import { ModelError } from './models/errors.ts';
import type { Connections } from './models/request.ts';
import type { ModelEntry, Usage, WorkerEvent } from './protocol.ts';
import type { Log, Redo } from './run-options.ts';
import type { RecordData, RecordType } from './session/record.ts';
import type { SessionStore } from './session/store.ts';
import type { Tool, ToolContext } from './tools/types.ts';

export interface RunContext {
  sessionId: string;
  store: SessionStore;
  conversation: Conversation;
  models: readonly ModelEntry[];
  cooling: Cooling;
  connections: Connections;
  tools: readonly Tool[];
  toolContext: ToolContext;
  /** Every one of them must stay silent for a call to run. */
  guards: readonly Guard[];
  spending: Spending;
  /** The same calls with the same results so often in a row end the run. */
  repeats: number;
  idleTimeoutMs: number;
  queueTimeoutMs: number;
  redo: Redo;
  signal: AbortSignal;
  totals: { turns: number; usage: Usage };
  emit(event: WorkerEvent): void;
  /** Resolves when the reader has caught up enough for more. */
  drained(): Promise<void>;
  log: Log;
}

/** Writes one record and lets the conversation take it: only in this order, and nowhere else. */
export async function record<T extends RecordType>(
  context: Pick<RunContext, 'store' | 'conversation'>,
  type: T,
  data: RecordData[T],
  options: { durable?: boolean } = {},
): Promise<void> {
  applyRecord(context.conversation, await context.store.append(type, data, options));
}

export function throwIfCancelled(signal: AbortSignal): void {
  if (signal.aborted) throw new ModelError('cancelled', 'cancelled');
}

/** Waits, or rejects with a `cancelled` ModelError as soon as the run is cancelled. */
export function sleep(ms: number, signal: AbortSignal): Promise<void> {
  return new Promise((resolve, reject) => {
    const cancel = (): void => {
      clearTimeout(timer);
      reject(new ModelError('cancelled', 'cancelled'));
    };
    const timer = setTimeout(() => {
      signal.removeEventListener('abort', cancel);
      resolve();
    }, ms);
    if (signal.aborted) cancel();
    else signal.addEventListener('abort', cancel, { once: true });
  });
}

export function addUsage(total: Usage, usage: Usage | null): void {
  if (usage === null) return;
  total.inputTokens += usage.inputTokens;
  total.outputTokens += usage.outputTokens;
  total.totalTokens += usage.totalTokens;
}
