// The seam between the agent loop and its tools. A tool never throws, never ends the process and never writes to stdout.

/** A process that a bash call left running; `startTicks` (field 22 of /proc/PID/stat) guards against pid reuse. */
export interface LeftProcess {
  pid: number;
  startTicks: string;
}

export interface ToolContext {
  /** Absolute working directory. The file tools stay inside it and /tmp. */
  cwd: string;
  /** Aborted when the run is cancelled: the call ends its processes and answers with an error result. */
  signal: AbortSignal;
  /** Files of the call's tools group. When given, a shell joins the group before it runs anything, or does not run. */
  toolsCgroup?: { procs: string; events: string };
  /** True: tools that write or execute answer with an error. */
  readOnly: boolean;
  /** One array per run, handed to each of its calls; give it to `endBackground` when the run ends. */
  background?: LeftProcess[];
}

export interface ToolOutcome {
  /** Well-formed text of bounded size. */
  content: string;
  isError: boolean;
  /** `data` is base64. */
  image?: { mediaType: string; data: string };
}

/** SHA-256 (hex) of a file before and after a write; `before` is null when the file does not exist. */
export interface WritePlan {
  /** Absolute. */
  path: string;
  before: string | null;
  after: string;
}

export interface Tool {
  name: string;
  description: string;
  /** JSON schema of the arguments. */
  parameters: Record<string, unknown>;
  effect: 'pure' | 'write' | 'exec';
  /** Checks the arguments itself; resolves in every case. */
  run(args: Record<string, unknown>, context: ToolContext): Promise<ToolOutcome>;
  /**
   * Tools of effect `write`: what a call would do, for the durable `tool_started` record. Null when the call
   * would fail (then `run` says why) or is not a write. Changes nothing and never throws.
   */
  plan?(args: Record<string, unknown>, context: ToolContext): Promise<WritePlan | null>;
}
