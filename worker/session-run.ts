// One run over an open session log: prompt in, loop, final answer out. Loads http and the tools only after the first
// event was handed over, so that a reader sees it early.
import { chooseTools } from './choose-tools.ts';
import type { Conversation } from './conversation.ts';
import { RunError } from './failure.ts';
import type { Ledger } from './ledger.ts';
import { liveModels } from './model-source.ts';
import type { Cooling } from './models/cooling.ts';
import type { ModelEntry, SessionEvent } from './protocol.ts';
import { DEFAULT_REPEATS } from './repeats.ts';
import { type RunContext, record } from './run-context.ts';
import type { RunOptions } from './run-options.ts';
import type { SessionStore } from './session/store.ts';
import { DEFAULT_IDLE_TIMEOUT_MS, DEFAULT_QUEUE_TIMEOUT_MS } from './settings.ts';
import { defaultSystemPrompt } from './system-prompt.ts';
import { wellFormed } from './text.ts';
import type { Tool } from './tools/types.ts';

/** The kept connections hold no process up meanwhile. */
const CLOSE_DELAY_MS = 50;

export interface SessionRun {
  options: RunOptions;
  sessionId: string;
  cwd: string;
  /** That of the session's last run, null for a new session. */
  formerCwd: string | null;
  models: readonly ModelEntry[];
  idleTimeoutMs?: number;
  queueTimeoutMs?: number;
  store: SessionStore;
  conversation: Conversation;
  ledger: Ledger;
  cooling: Cooling;
  totals: RunContext['totals'];
  spending: RunContext['spending'];
  signal: AbortSignal;
  emit: RunContext['emit'];
  drained: RunContext['drained'];
  log: RunContext['log'];
}

/**
 * Logs that the run began and its prompt, and only then says so: whoever has seen the `session` event can rely on the
 * prompt, also when the process dies right after it.
 */
async function announce(run: SessionRun): Promise<void> {
  const { options, sessionId, store, cwd } = run;
  const engine = options.engine ?? 'djinn';
  const model = (run.models[0] as ModelEntry).id;
  const models = run.models.map(({ id, inputLimit, outputLimit }) => ({
    id,
    ...(inputLimit === undefined ? {} : { inputLimit }),
    ...(outputLimit === undefined ? {} : { outputLimit }),
  }));
  for (const { offset, bytes, reason } of store.damage) {
    run.log('warn', 'a line of the session log is damaged and was set aside', {
      file: store.name,
      offset,
      bytes,
      reason,
    });
  }
  if (run.conversation.orphans > 0) {
    run.log('warn', 'results without their call were set aside', {
      file: store.name,
      count: run.conversation.orphans,
    });
  }
  const job = options.jobId === undefined ? {} : { jobId: options.jobId };
  const attempt = options.attempt === undefined ? {} : { attempt: options.attempt };
  await record(run, 'run', { sessionId, engine, model, cwd, pid: process.pid, models, ...job, ...attempt });
  await addPrompt(run);
  const event: SessionEvent = { type: 'session', sessionId, resumed: store.found > 0, engine, model };
  run.emit(options.workspace === undefined ? event : { ...event, workspace: options.workspace });
}

/** The session's own prompt; our default names the working directory, which another run may have changed. */
function chooseSystemPrompt({ options, conversation, cwd, formerCwd }: SessionRun): string {
  const before = conversation.context?.systemPrompt;
  const isDefault = formerCwd !== null && before === defaultSystemPrompt(formerCwd);
  return options.systemPrompt ?? (isDefault ? undefined : before) ?? defaultSystemPrompt(cwd);
}

/** Logs system prompt and tool definitions when they differ from what the log has. */
async function setContext(run: SessionRun, tools: readonly Tool[]): Promise<void> {
  const before = run.conversation.context;
  const prompt = chooseSystemPrompt(run);
  const definitions = tools.map(({ name, description, parameters }) => ({ name, description, parameters }));
  const context = { systemPrompt: wellFormed(prompt), tools: definitions };
  if (JSON.stringify(before) !== JSON.stringify(context)) await record(run, 'context', context);
}

/** Adds the prompt, unless an earlier attempt of the same job has added it. */
async function addPrompt(run: SessionRun): Promise<void> {
  const { prompt, images, jobId } = run.options;
  const { entries } = run.conversation;
  if (prompt === undefined) return;
  const known = jobId !== undefined && entries.some((one) => one.kind === 'user' && one.data.jobId === jobId);
  if (known) return;
  await record(run, 'user', {
    text: wellFormed(prompt),
    ...(images === undefined || images.length === 0 ? {} : { images }),
    ...(jobId === undefined ? {} : { jobId }),
  });
}

async function runModels(run: SessionRun): Promise<{ text: string; finish: string | null }> {
  if (run.conversation.entries.length === 0) throw new RunError('no_prompt', 'a new session needs a prompt');
  const tools = await chooseTools(run.options);
  await setContext(run, tools);
  const { closeConnections } = await import('./models/request.ts');
  const { runLoop } = await import('./loop.ts');
  const background: NonNullable<RunContext['toolContext']['background']> = [];
  const connections: RunContext['connections'] = {};
  const { options, cwd, signal } = run;
  const context: RunContext = {
    ...run,
    tools,
    source: options.source ?? liveModels,
    connections,
    toolContext: {
      cwd,
      signal,
      readOnly: options.readOnly ?? false,
      background,
      ...(options.toolsCgroup === undefined ? {} : { toolsCgroup: options.toolsCgroup }),
    },
    guards: options.guards ?? [],
    repeats: options.budget?.repeats ?? DEFAULT_REPEATS,
    idleTimeoutMs: options.idleTimeoutMs ?? run.idleTimeoutMs ?? DEFAULT_IDLE_TIMEOUT_MS,
    queueTimeoutMs:
      options.queueTimeoutMs ?? options.idleTimeoutMs ?? run.queueTimeoutMs ?? DEFAULT_QUEUE_TIMEOUT_MS,
    redo: options.redo ?? 'auto',
  };
  try {
    const { data } = await runLoop(context);
    return { text: data.text, finish: data.finish };
  } finally {
    // A moment later: destroying a socket makes Node build `process.stderr`, 2 ms before the last event goes out.
    setTimeout(() => closeConnections(connections), CLOSE_DELAY_MS).unref();
    if (background.length > 0) await (await import('./tools/index.ts')).endBackground(background);
  }
}

/**
 * Runs to the final answer and emits everything but the terminal event, which the caller owns. The log's `end`
 * record is written in every case that the log still takes it.
 */
export async function runSession(run: SessionRun): Promise<{ text: string; finish: string | null }> {
  await announce(run);
  const answer = await runModels(run);
  await record(run, 'end', { outcome: 'done', ...run.totals });
  return answer;
}
