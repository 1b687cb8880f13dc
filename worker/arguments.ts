// The command line: from words to what was asked for. Pure; reads no file and no environment.
import { parseArgs } from 'node:util';
import type { Budget } from './run-options.ts';
import { TOOL_NAMES } from './tools/names.ts';

export const USAGE = `djinn - one headless agent run: NDJSON events on stdout, log on stderr

  djinn -p PROMPT [options]     run a prompt ("-p -" reads it from stdin)
  djinn --session-id ID         finish what the session's last run left
  djinn --job -                 read the whole job as one JSON line from stdin (for supervisors)
  djinn sessions|replay|fork|rerun    recorded sessions: look at, check, fork, run again; each has its own --help

  -p, --prompt TEXT             the prompt
      --session-id ID           session to begin or resume, [A-Za-z0-9_-]{1,64}
      --system-prompt-file F    file with the system prompt
      --model NAME              model (default: DJINN_MODEL)
      --config FILE             models and keys (default: DJINN_CONFIG, else config.json in DJINN_HOME)
      --cwd DIR                 working directory of the tools
      --tools a,b               keep only these tools
      --deny-tools a,b          remove these tools
      --read-only               only tools that change nothing
      --budget-requests N       end after N requests to models
      --budget-tokens N         make no further request after N tokens
      --budget-seconds N        end after N seconds
      --budget-repeats N        end when the same calls gave the same results N times in a row (default: 40)
      --redo auto|always|never  tool calls during which an earlier run died (default: auto)
  -h, --help                    this text
      --version                 the version

Environment: DJINN_API_KEY, DJINN_API_KEY_FILE, DJINN_API_BASE, DJINN_MODEL, DJINN_FALLBACKS, DJINN_INPUT_LIMIT,
DJINN_OUTPUT_LIMIT, DJINN_CONFIG, DJINN_IDLE_TIMEOUT_MS, DJINN_QUEUE_TIMEOUT_MS, DJINN_HOME (session logs; default
~/.djinn).
Exit codes: 0 done, 1 failed, 2 wrong usage, 129 SIGHUP, 130 SIGINT, 143 SIGTERM.
`;

/** A command line that cannot be run; the message says why. */
export class UsageError extends Error {}

export type Command =
  | { kind: 'help' }
  | { kind: 'version' }
  | { kind: 'job' }
  | {
      kind: 'prompt';
      /** Undefined: no new prompt. `-` reads stdin. */
      prompt: string | undefined;
      sessionId: string | undefined;
      systemPromptFile: string | undefined;
      model: string | undefined;
      configFile: string | undefined;
      cwd: string | undefined;
      allow: string[] | undefined;
      deny: string[] | undefined;
      readOnly: boolean;
      budget: Budget;
      redo: 'auto' | 'always' | 'never';
    };

const OPTIONS = {
  prompt: { type: 'string', short: 'p' },
  job: { type: 'string' },
  'session-id': { type: 'string' },
  'system-prompt-file': { type: 'string' },
  model: { type: 'string' },
  config: { type: 'string' },
  cwd: { type: 'string' },
  tools: { type: 'string' },
  'deny-tools': { type: 'string' },
  'read-only': { type: 'boolean' },
  'budget-requests': { type: 'string' },
  'budget-tokens': { type: 'string' },
  'budget-seconds': { type: 'string' },
  'budget-repeats': { type: 'string' },
  redo: { type: 'string' },
  help: { type: 'boolean', short: 'h' },
  version: { type: 'boolean' },
} as const;

/** `--name value` as `--name=value`: a value may begin with a dash, and parseArgs refuses that as ambiguous. */
function joinValues(words: readonly string[]): string[] {
  const joined: string[] = [];
  for (let index = 0; index < words.length; index += 1) {
    const word = words[index] as string;
    const name = word === '-p' ? 'prompt' : word.startsWith('--') ? word.slice(2) : '';
    const takesValue =
      Object.hasOwn(OPTIONS, name) && OPTIONS[name as keyof typeof OPTIONS].type === 'string';
    const value = words[index + 1];
    if (takesValue && value !== undefined) {
      joined.push(`--${name}=${value}`);
      index += 1;
    } else {
      joined.push(word);
    }
  }
  return joined;
}

function parse(words: readonly string[]) {
  try {
    return parseArgs({ args: joinValues(words), options: OPTIONS, strict: true, allowPositionals: false })
      .values;
  } catch (error) {
    throw new UsageError((error as Error).message);
  }
}

/** A misspelt name would keep or remove nothing, and what was to be removed would stay. */
function toolNames(option: string, text: string | undefined): string[] | undefined {
  const names = text
    ?.split(',')
    .map((name) => name.trim())
    .filter((name) => name !== '');
  const unknown = names?.find((name) => !TOOL_NAMES.includes(name));
  if (unknown !== undefined)
    throw new UsageError(`${option}: there is no tool ${unknown}; tools are ${TOOL_NAMES.join(', ')}`);
  return names;
}

const BUDGET_OPTIONS = [
  ['budget-requests', 'requests', 1],
  ['budget-tokens', 'tokens', 1],
  ['budget-seconds', 'wallMs', 1000],
  ['budget-repeats', 'repeats', 1],
] as const;

function readBudget(values: ReturnType<typeof parse>): Budget {
  const budget: Budget = {};
  for (const [option, name, factor] of BUDGET_OPTIONS) {
    const text = values[option];
    if (text === undefined) continue;
    if (!/^[1-9]\d{0,11}$/.test(text)) throw new UsageError(`--${option} must be a positive whole number`);
    budget[name] = Number(text) * factor;
  }
  return budget;
}

/** Reads the words after the program's name. Throws a UsageError. */
export function readArguments(words: readonly string[]): Command {
  const values = parse(words);
  if (values.help) return { kind: 'help' };
  if (values.version) return { kind: 'version' };
  if (values.job !== undefined) {
    if (values.job !== '-') throw new UsageError('--job takes only "-": the job comes from stdin');
    if (Object.keys(values).length > 1) throw new UsageError('--job takes no other option');
    return { kind: 'job' };
  }
  const sessionId = values['session-id'];
  if (sessionId !== undefined && !/^[A-Za-z0-9_-]{1,64}$/.test(sessionId)) {
    throw new UsageError('--session-id must be 1 to 64 letters, digits, "_" or "-"');
  }
  if (values.prompt === undefined && sessionId === undefined)
    throw new UsageError('a prompt is missing: -p "…"');
  if (values.prompt?.trim() === '') throw new UsageError('the prompt is empty');
  const redo = values.redo ?? 'auto';
  if (redo !== 'auto' && redo !== 'always' && redo !== 'never') {
    throw new UsageError('--redo must be auto, always or never');
  }
  return {
    kind: 'prompt',
    prompt: values.prompt,
    sessionId,
    systemPromptFile: values['system-prompt-file'],
    model: values.model,
    configFile: values.config,
    cwd: values.cwd,
    allow: toolNames('--tools', values.tools),
    deny: toolNames('--deny-tools', values['deny-tools']),
    readOnly: values['read-only'] ?? false,
    budget: readBudget(values),
    redo,
  };
}
