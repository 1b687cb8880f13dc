// What the parts of one run share, and the one way in which the log grows. Decides nothing.
import type { Spending } from './budget.ts';
import { applyRecord, type Conversation } from './conversation.ts';
import type { Guard } from './guards.ts';
import type { Ledger } from './ledger.ts';
import type { ModelSource } from './model-source.ts';
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
  /** Tells what each request must be according to the log. */
  ledger: Ledger;
  source: ModelSource;
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

/** Writes one record, then lets the conversation and the ledger take it: only in this order, and nowhere else. */
export async function record<T extends RecordType>(
  context: Pick<RunContext, 'store' | 'conversation' | 'ledger'>,
  type: T,
  data: RecordData[T],
  options: { durable?: boolean } = {},
): Promise<void> {
  const written = await context.store.append(type, data, options);
  applyRecord(context.conversation, written);
  context.ledger.take(written);
}

export function throwIfCancelled(signal: AbortSignal): void {
  if (signal.aborted) throw new ModelError('cancelled', 'cancelled');
}

export function addUsage(total: Usage, usage: Usage | null): void {
  if (usage === null) return;
  total.inputTokens += usage.inputTokens;
  total.outputTokens += usage.outputTokens;
  total.totalTokens += usage.totalTokens;
}
