// One prompt against a scripted model, and what came of it.
import assert from 'node:assert/strict';
import { existsSync } from 'node:fs';
import { join } from 'node:path';
import type { TestContext } from 'node:test';
import {
  contentChunk,
  type FakeOpenAI,
  type FakeOptions,
  type ModelEntry,
  type Reply,
  type RunOptions,
  run,
  type Script,
  startFakeOpenAI,
  type WorkerEvent,
} from '../../worker/index.ts';
import {
  type LogLine,
  makeFolder,
  readSession,
  runWorker,
  terminal,
  type WorkerEnd,
} from './worker-process.ts';

/** A fake model server that is stopped after the test. */
export async function startFake(t: TestContext, script: Script, options?: FakeOptions): Promise<FakeOpenAI> {
  const fake = await startFakeOpenAI(script, options);
  t.after(() => fake.stop());
  return fake;
}

/** Runs one prompt on session `s` against the fake. */
export async function hello(
  t: TestContext,
  fake: FakeOpenAI,
  env: Record<string, string> = {},
): Promise<WorkerEnd & { home: string }> {
  const home = makeFolder(t);
  const end = await runWorker(t, ['-p', 'hello', '--session-id', 's'], { baseUrl: fake.baseUrl, home, env });
  terminal(end.events);
  return { ...end, home };
}

/** One server-sent event with a chunk as its data. */
export const event = (chunk: unknown): string => `data: ${JSON.stringify(chunk)}\n\n`;

/** How long ago the first request arrived: leaves out the start of the process on a busy machine. */
export const sinceRequestMs = (fake: FakeOpenAI): number => Date.now() - (fake.requests[0]?.arrivedMs ?? 0);

/** The final text; fails unless the run is done. */
export function doneText(end: WorkerEnd): string {
  const last = terminal(end.events);
  assert.equal(last.type, 'done', JSON.stringify(last));
  return last.type === 'done' ? last.text : '';
}

/** The code of the error event; fails unless the run failed with exit code 1. */
export function errorCode(end: WorkerEnd): string {
  const last = terminal(end.events);
  assert.equal(last.type, 'error', JSON.stringify(last));
  assert.equal(end.code, 1);
  return last.type === 'error' ? last.code : '';
}

/** What came of a run in this process. */
export interface Ran {
  events: WorkerEvent[];
  /** The final text, or the code of the error. */
  outcome: string;
  records: LogLine[];
  /** What was logged at `warn` and above. */
  warnings: string[];
  home: string;
}

/** Runs one prompt on session `s` in this process: much cheaper than a process where that is not the point. */
export async function runHere(
  t: TestContext,
  baseUrl: string,
  options: Partial<RunOptions> & { home?: string; onEvent?: (event: WorkerEvent) => void } = {},
): Promise<Ran> {
  const home = options.home ?? makeFolder(t);
  const events: WorkerEvent[] = [];
  const warnings: string[] = [];
  for await (const one of run({
    prompt: 'hello',
    sessionId: 's',
    models: [{ id: 'm', baseUrl }],
    cwd: home,
    session: { provider: 'file', dir: `${home}/sessions` },
    log: (level, message, fields) => {
      if (level !== 'info') warnings.push(`${message} ${JSON.stringify(fields)}`);
    },
    ...options,
  })) {
    events.push(one);
    options.onEvent?.(one);
  }
  const last = terminal(events);
  const outcome = last.type === 'done' ? last.text : last.type === 'error' ? last.code : '';
  // A run that was refused before it began has no log.
  const records = existsSync(join(home, 'sessions/s.jsonl')) ? readSession(home, 's') : [];
  return { events, outcome, records, warnings, home };
}

/** The texts of the answer as they were streamed, without reasoning. */
export const textsOf = (events: readonly WorkerEvent[]): string[] =>
  events.flatMap((one) => (one.type === 'token' && one.reasoning !== true ? [one.text] : []));

/** A server where `m1` answers as given and `m2` says ok. */
export const startTwo = (t: TestContext, first: Reply): Promise<FakeOpenAI> =>
  startFake(t, ({ body }) => (body.model === 'm1' ? first : { sse: [contentChunk('ok')] }));

/** The models `m1` and `m2` of one server. */
export const twoModels = ({ baseUrl }: FakeOpenAI): ModelEntry[] =>
  ['m1', 'm2'].map((id) => ({ id, baseUrl }));

/** Which models were asked, in order. */
export const asked = (fake: FakeOpenAI): string[] => fake.requests.map((request) => request.body.model);
