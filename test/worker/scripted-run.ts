// One prompt against a scripted model, and what came of it.
import assert from 'node:assert/strict';
import type { TestContext } from 'node:test';
import { type FakeOpenAI, type FakeOptions, type Script, startFakeOpenAI } from '../../worker/index.ts';
import { makeFolder, runWorker, terminal, type WorkerEnd } from './worker-process.ts';

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
