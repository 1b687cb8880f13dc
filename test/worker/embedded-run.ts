// Runs in the test's own process, as an embedding program does.
import type { TestContext } from 'node:test';
import {
  type FakeOpenAI,
  type RunOptions,
  run,
  type Tool,
  type ToolContext,
  type ToolOutcome,
  type WorkerEvent,
} from '../../worker/index.ts';
import { makeFolder, terminal } from './worker-process.ts';

/** All events of a run on session `s` in a folder of its own; exactly one of them is terminal, the last. */
export async function collectRun(
  t: TestContext,
  fake: FakeOpenAI,
  options: Partial<RunOptions> = {},
): Promise<WorkerEvent[]> {
  const events: WorkerEvent[] = [];
  const defaults: RunOptions = {
    prompt: 'go',
    sessionId: 's',
    models: [{ id: 'm', baseUrl: fake.baseUrl }],
    session: { provider: 'file', dir: makeFolder(t) },
  };
  for await (const event of run({ ...defaults, ...options })) events.push(event);
  terminal(events);
  return events;
}

/** The code of the error that ended a run, or `done`. */
export function endOf(events: WorkerEvent[]): string {
  const last = terminal(events);
  return last.type === 'error' ? last.code : last.type;
}

export const resultsOf = (events: WorkerEvent[]) => events.filter((event) => event.type === 'tool_result');

/** A tool that takes any arguments. */
export function makeTool(
  name: string,
  effect: Tool['effect'],
  body: (args: Record<string, unknown>, context: ToolContext) => ToolOutcome | Promise<ToolOutcome>,
): Tool {
  return {
    name,
    description: name,
    parameters: { type: 'object', properties: {} },
    effect,
    run: async (args, context) => body(args, context),
  };
}
