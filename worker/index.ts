// What the package offers to other programs. Loads the fake server only when it is asked for.
import type { FakeOpenAI, FakeOptions, Script } from './fake-openai/server.ts';

export { ERROR_CODES, type ErrorCode } from './error-codes.ts';
export {
  argumentsChunk,
  type Chunk,
  contentChunk,
  deltaChunk,
  finishChunk,
  reasoningChunk,
  toolCallChunk,
  usageChunk,
} from './fake-openai/chunks.ts';
export { FAULT_KINDS, type FaultKind, type FaultOptions } from './fake-openai/faults.ts';
export { cut, httpError, type Reply, reset, type Step, stall } from './fake-openai/reply.ts';
export type { FakeOpenAI, FakeOptions, FakeRequest, Script } from './fake-openai/server.ts';
export type { Denial, Guard, GuardedCall } from './guards.ts';
export type { ModelSource } from './model-source.ts';
export * from './protocol.ts';
export { run } from './run.ts';
export type { Budget, Log, Redo, RunOptions, ToolFilter } from './run-options.ts';
export type { Tool, ToolContext, ToolOutcome } from './tools/types.ts';

/** Starts a scripted model server; see `Script` for what it answers. */
export async function startFakeOpenAI(script: Script, options: FakeOptions = {}): Promise<FakeOpenAI> {
  const server = await import('./fake-openai/server.ts');
  return server.startFakeOpenAI(script, options);
}
