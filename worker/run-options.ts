// What an embedding program may ask of a run. Types only.
import type { Guard } from './guards.ts';
import type { ModelSource } from './model-source.ts';
import type { ModelEntry, PromptImage } from './protocol.ts';
import type { Tool } from './tools/types.ts';

export type Log = (
  level: 'info' | 'warn' | 'error',
  message: string,
  fields?: Record<string, unknown>,
) => void;
export type Redo = 'auto' | 'always' | 'never';

export interface ToolFilter {
  allow?: string[];
  deny?: string[];
  /** Further tools beside the built-in ones; `allow` and `deny` hold for them too. */
  add?: readonly Tool[];
}

/** What one run may spend. */
export interface Budget {
  /** Requests to models, repeated ones and those for summaries included. */
  requests?: number;
  /** Input and output tokens as the providers report them; estimated where one reports none. */
  tokens?: number;
  /** Milliseconds from the start of the run; the request or tool in hand is ended. */
  wallMs?: number;
  /** Rounds in a row with the same calls and the same results; default 40. Then the run ends with `tool_loop`. */
  repeats?: number;
}

export interface RunOptions {
  /** Absent: finish what the session's last run left, without a new prompt. */
  prompt?: string;
  images?: PromptImage[];
  /** `[A-Za-z0-9_-]{1,64}`; an unknown one is created, an absent one is made up. */
  sessionId?: string;
  /** Default: the working directory of the process. */
  cwd?: string;
  /** The primary and its fallbacks in order. Default: from the environment, like the command line. */
  models?: readonly ModelEntry[];
  /** Which of the seven tools are kept and removed, or other tools instead. */
  tools?: ToolFilter | readonly Tool[];
  /** Default: the one of the session's last run, else a short one of our own. */
  systemPrompt?: string;
  /** Ends the run: the model request is dropped, the tool's processes are ended, the session stays resumable. */
  signal?: AbortSignal;
  /** Where the session log is: a folder of files, or the descriptors of a supervisor (3 and 4). */
  session?: { provider: 'file'; dir?: string } | { provider: 'fd'; recordsFd?: number; logFd?: number };
  /** True: only tools that change nothing. */
  readOnly?: boolean;
  /** Asked before each tool call; any of them can deny it, none can allow what another denies. */
  guards?: readonly Guard[];
  /** What this run may spend; when it is spent, the run ends with `error {code: "budget"}`. */
  budget?: Budget;
  engine?: string;
  /** A prompt is added to the session once per job, however often the job is tried. */
  jobId?: string;
  attempt?: number;
  workspace?: 'existing' | 'new';
  toolsCgroup?: { procs: string; events: string };
  /** Tool calls during which an earlier run died: by their effect (default), all again, or none. */
  redo?: Redo;
  /** Longest time without data from a model. */
  idleTimeoutMs?: number;
  /** How long comments may hold a request that has no data yet; default: 31 minutes, or `idleTimeoutMs` when given. */
  queueTimeoutMs?: number;
  /** File that remembers over processes which models are left alone; default: the memory of this process. */
  coolingFile?: string;
  log?: Log;
  /** Who answers requests instead of the models' endpoints, such as a recorded session. */
  source?: ModelSource;
}
