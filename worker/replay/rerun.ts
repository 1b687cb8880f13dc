// Runs a recorded session again: the real loop, with the models' recorded answers and, unless the real tools are asked
// for, the tools' recorded results. Writes a session of its own; never touches the recorded one or the network.

import type { ModelEntry, WorkerEvent } from '../protocol.ts';
import { run } from '../run.ts';
import type { Redo, RunOptions } from '../run-options.ts';
import { forkSession } from '../session/fork.ts';
import type { WholeLog } from '../session/log-file.ts';
import type { Fault } from './faults.ts';
import { createRecordedSource, type ReplayState } from './recorded-source.ts';
import { recordedTools } from './recorded-tools.ts';
import { type RecordedRun, readRecording } from './recording.ts';

export interface RerunOptions {
  /** Id of the recorded session. */
  from: string;
  /** Folder and id of the session that is written; it must not exist. */
  dir: string;
  sessionId: string;
  /** Begin after this record, with a fork up to it. Default: from the start. */
  at?: number;
  /** By the number of the request, counted from 1 where the replay begins. */
  faults?: Map<number, Fault>;
  /** True: the calls really run, in `cwd`. */
  realTools?: boolean;
  cwd?: string;
  signal?: AbortSignal;
  log?: RunOptions['log'];
}

/** Nobody is asked there; the address is never used. */
const NOWHERE = 'http://127.0.0.1:9/v1';

function modelsOf({ models }: RecordedRun): ModelEntry[] {
  const known = models.length > 0 ? models : [{ id: 'none' }];
  return known.map((model) => ({ ...model, baseUrl: NOWHERE }));
}

/** How a recorded run ended, in the words of its events. */
export const recordedEnd = ({ end }: RecordedRun): string =>
  end === null ? 'replay_end' : end.outcome === 'done' ? 'done' : (end.code ?? 'internal');

/**
 * Yields the events of each run, one run after the other, and after each how it ended in the record and now.
 * A run whose process died ends with `replay_end` where the record of its answers ends. Throws a StoreError when the
 * session exists or there is no record `at`.
 */
export async function* rerunSession(
  log: WholeLog,
  options: RerunOptions,
): AsyncGenerator<WorkerEvent | { ended: { recorded: string; now: string } }, void, undefined> {
  const { from, dir, sessionId, at = 0, faults = new Map(), signal } = options;
  if (at > 0) forkSession(log, { from, at, dir, sessionId, complete: false });
  const recording = readRecording(log.all, at);
  const state: ReplayState = { requests: 0, faults, changed: false, cooling: new Map() };
  const tools = options.realTools ? {} : { tools: recordedTools(recording) };
  const redo: Redo = options.realTools ? 'auto' : 'always';
  for (const one of recording.runs) {
    const models = modelsOf(one);
    const events = run({
      ...tools,
      redo,
      sessionId,
      models,
      session: { provider: 'file', dir },
      source: createRecordedSource(one.requests, models, state),
      ...(one.prompt === undefined ? {} : { prompt: one.prompt }),
      ...(one.images === undefined ? {} : { images: one.images }),
      ...(one.context === null ? {} : { systemPrompt: one.context.systemPrompt }),
      ...(options.cwd === undefined ? {} : { cwd: options.cwd }),
      ...(options.log === undefined ? {} : { log: options.log }),
      ...(signal === undefined ? {} : { signal }),
    });
    let now = '';
    for await (const event of events) {
      if (event.type === 'done' || event.type === 'error') now = event.type === 'error' ? event.code : 'done';
      yield event;
    }
    yield { ended: { recorded: recordedEnd(one), now } };
    if (signal?.aborted) return;
  }
}
