// One agent run as a stream of events. Never ends the process, writes to stdout or touches signals; several runs may
// go on in one process.
import { setMaxListeners } from 'node:events';
import { statSync } from 'node:fs';
import { resolve } from 'node:path';
import { checkBudget, createSpending } from './budget.ts';
import { type Channel, createChannel } from './channel.ts';
import { applyRecord, createConversation } from './conversation.ts';
import { describeFailure, RunError } from './failure.ts';
import { createLedger } from './ledger.ts';
import type { Cooling } from './models/cooling.ts';
import { openCoolingFile } from './models/cooling-file.ts';
import type { DoneEvent, WorkerEvent } from './protocol.ts';
import type { RunContext } from './run-context.ts';
import type { RunOptions } from './run-options.ts';
import { openDescriptorStore } from './session/descriptors.ts';
import { openFileStore } from './session/file.ts';
import { newSessionId } from './session/new-id.ts';
import type { SessionRecord } from './session/record.ts';
import type { SessionStore } from './session/store.ts';
import { runSession, type SessionRun } from './session-run.ts';
import { readModelEntry, readSettings, sessionDir } from './settings.ts';

/** Shared by the runs of a process: a model that is down is not asked first by each of them. */
const cooling: Cooling = new Map();

function checkCwd(cwd: string | undefined): string {
  try {
    const path = resolve(cwd ?? process.cwd());
    if (statSync(path).isDirectory()) return path;
  } catch {
    // Said below; process.cwd() itself throws when the folder is gone.
  }
  throw new RunError('bad_cwd', `the working directory ${cwd ?? ''} is not a folder`);
}

function chooseModels(options: RunOptions): Pick<SessionRun, 'models' | 'idleTimeoutMs' | 'queueTimeoutMs'> {
  if (options.models === undefined) return readSettings(process.env);
  if (options.models.length === 0) throw new RunError('settings', 'the list of models is empty');
  return { models: options.models.map((entry, index) => readModelEntry(entry, `models[${index}]`)) };
}

function chooseCooling({ source, coolingFile }: RunOptions): Cooling {
  return source?.cooling ?? (coolingFile === undefined ? cooling : openCoolingFile(coolingFile, Date.now));
}

async function openStore(
  options: RunOptions,
  sessionId: string,
  onRecord: (record: SessionRecord) => void,
): Promise<SessionStore> {
  const session = options.session ?? { provider: 'file' };
  if (session.provider === 'fd') {
    const { recordsFd = 3, logFd = 4 } = session;
    return openDescriptorStore({ recordsFd, logFd, onRecord });
  }
  const dir = session.dir ?? sessionDir(process.env);
  if (dir === null) throw new RunError('storage', 'no place for the session log: set DJINN_HOME or HOME');
  return openFileStore({ dir, sessionId, onRecord });
}

interface Ports {
  emit: RunContext['emit'];
  drained: RunContext['drained'];
  signal: AbortSignal;
  /** Aborts the signal with this reason. */
  cancel(reason: RunError): void;
}

const startWallClock = (wallMs: number, cancel: Ports['cancel']): NodeJS.Timeout =>
  setTimeout(
    () => cancel(new RunError('budget', `the run has taken the ${wallMs} ms of its budget`)),
    wallMs,
  );

/** Runs and emits every event, the terminal one last. Never rejects. */
async function runToEnd(options: RunOptions, { emit, drained, signal, cancel }: Ports): Promise<void> {
  const totals = { turns: 0, usage: { inputTokens: 0, outputTokens: 0, totalTokens: 0 } };
  const conversation = createConversation();
  const ledger = createLedger();
  let store: SessionStore | undefined;
  let wallTimer: NodeJS.Timeout | undefined;
  try {
    const budget = checkBudget(options.budget ?? {});
    if (budget.wallMs !== undefined) wallTimer = startWallClock(budget.wallMs, cancel);
    const { models, idleTimeoutMs, queueTimeoutMs } = chooseModels(options);
    const cwd = checkCwd(options.cwd);
    if (options.prompt?.trim() === '') throw new RunError('bad_prompt', 'the prompt is empty');
    const sessionId = options.sessionId ?? newSessionId();
    store = await openStore(options, sessionId, (one) => {
      applyRecord(conversation, one);
      ledger.take(one);
    });
    const run: SessionRun = {
      options,
      sessionId,
      cwd,
      formerCwd: conversation.cwd,
      models,
      ...(idleTimeoutMs === undefined ? {} : { idleTimeoutMs }),
      ...(queueTimeoutMs === undefined ? {} : { queueTimeoutMs }),
      store,
      conversation,
      ledger,
      cooling: chooseCooling(options),
      totals,
      spending: createSpending(budget),
      signal,
      emit,
      drained,
      log: options.log ?? (() => {}),
    };
    const { text, finish } = await runSession(run);
    await store.close();
    const done: DoneEvent = { type: 'done', sessionId, ...totals, text };
    emit(finish === 'length' ? { ...done, finishReason: 'length' } : done);
  } catch (error) {
    const failure = describeFailure(error, signal);
    if (store !== undefined) await closeFailed(store, { outcome: 'error', ...totals, ...failure }, options);
    emit({ type: 'error', ...failure });
  } finally {
    clearTimeout(wallTimer);
  }
}

/** Writes the `end` record if the log still takes it; what failed before is the cause that counts. */
async function closeFailed(
  store: SessionStore,
  end: { outcome: 'error'; code: string; message: string } & RunContext['totals'],
  options: RunOptions,
): Promise<void> {
  const { outcome, turns, usage, code, message } = end;
  try {
    if (code !== 'storage' && code !== 'session_lost') {
      await store.append('end', { outcome, turns, usage, code, message });
    }
    await store.close();
  } catch (error) {
    options.log?.('error', 'the session log could not be closed', { message: (error as Error).message });
  }
}

/** Ends the run when the caller's signal says so; `leave` takes the hand off that signal, which may live for long. */
function followSignal(signal: AbortSignal | undefined): { controller: AbortController; leave(): void } {
  const controller = new AbortController();
  // Calls at the same time listen each for itself; Node 18 warns on stderr from the eleventh on.
  setMaxListeners(0, controller.signal);
  const abort = (): void => controller.abort(signal?.reason);
  if (signal?.aborted) abort();
  else signal?.addEventListener('abort', abort, { once: true });
  return { controller, leave: () => signal?.removeEventListener('abort', abort) };
}

function eventUnits(event: WorkerEvent): number {
  if (event.type === 'token' || event.type === 'done') return event.text.length + 50;
  return event.type === 'tool_result' ? event.content.length + 50 : 200;
}

/**
 * Runs one prompt on one session and yields its events; the last one is always `done` or `error`. Ending the
 * iteration early cancels the run and waits until its tools are gone. Never throws for what a run may meet.
 */
export async function* run(options: RunOptions): AsyncGenerator<WorkerEvent, void, undefined> {
  const channel: Channel<WorkerEvent> = createChannel();
  const { controller, leave } = followSignal(options.signal);
  const emit = (event: WorkerEvent): void => channel.push(event, eventUnits(event));
  const cancel: Ports['cancel'] = (reason) => controller.abort(reason);
  const ports = { emit, drained: () => channel.drained(), signal: controller.signal, cancel };
  const ended = runToEnd(options, ports).finally(() => channel.end());
  try {
    for await (const batch of channel.batches()) yield* batch;
  } finally {
    channel.abandon();
    controller.abort(new RunError('cancelled', 'the reader went away'));
    await ended;
    leave();
  }
}
