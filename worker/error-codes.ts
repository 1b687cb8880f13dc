// The one table of the codes that an `error` event may carry. Codes are never reused; README.md shows the same table.

/** Per code: what it means, and whether the same run may succeed later without a change. */
export const ERROR_CODES = {
  usage: ['the command line is wrong (exit code 2)', false],
  settings: ['a setting, a model entry or a budget cannot be used', false],
  bad_job: ['the job line is wrong', false],
  bad_prompt: ['the prompt is empty', false],
  no_prompt: ['a new session needs a prompt', false],
  bad_cwd: ['the working directory is no folder', false],
  session_busy: ['another process runs this session', true],
  session_lost: ['another process took this session over', false],
  session_newer: ['a later version wrote this session', false],
  request_not_in_log: ['the request differs from what the session log says; it was not sent', false],
  storage: ['the session log cannot be read or written', false],
  cancelled: ['the caller cancelled the run', false],
  interrupted: ['SIGINT', true],
  terminated: ['SIGTERM or SIGHUP', true],
  output_closed: ['nobody reads the events any more', false],
  context_overflow: ['the conversation does not fit the model, also after compacting', false],
  gateway_away: ['the gateway of the daemon stayed away', true],
  budget: ['the budget of requests, tokens or time is spent, or the provider refuses for one', false],
  tool_loop: ['the model made the same calls with the same results again and again', false],
  model_quota: ['the quota or balance at the provider is used up', false],
  model_auth: ['the provider refuses the key', false],
  model_unknown_model: ['the provider does not know the model', false],
  model_not_api: ['the address does not speak the API', false],
  model_content_filter: ['the provider refuses the content', false],
  model_rate_limit: ['too many requests, also after waiting', true],
  model_server: ['the provider failed', true],
  model_network: ['the connection failed or broke', true],
  model_stall: ['no data came for too long', true],
  model_early_end: ['the answer ended before its end', true],
  model_malformed: ['the answer cannot be understood', true],
  model_empty: ['the answer was empty', true],
  model_bad_request: ['the provider refuses the request', false],
  no_end: ['in a replay: the recorded run has no end; its process died or still runs', true],
  replay_end: ['in a rerun: the record has no further request or answer', false],
  replay_differs: ['in a rerun: a request differs from the recorded one', false],
  internal: ['a defect; the log has more', false],
} as const satisfies Record<string, readonly [meaning: string, retryable: boolean]>;

export type ErrorCode = keyof typeof ERROR_CODES;

export const isRetryable = (code: ErrorCode): boolean => ERROR_CODES[code][1];
