// Reads the worker's environment; no other file of the worker looks at it. Pure over the given variables.
import type { ModelEntry } from './protocol.ts';

export const DEFAULT_BASE_URL = 'https://api.deepseek.com/v1';
export const DEFAULT_MODEL = 'deepseek-chat';
/** Longest time without data from a model; comments that keep a connection warm do not count. */
export const DEFAULT_IDLE_TIMEOUT_MS = 300_000;

/** Variables that hold or may hold a key: tools must not inherit them. */
export const SECRET_VARIABLES = ['DJINN_API_KEY', 'DJINN_FALLBACKS'] as const;

/** A setting that cannot be used; the message says which and what it should be. */
export class SettingsError extends Error {}

export interface Settings {
  models: ModelEntry[];
  /** Folder of the session logs; null when neither `DJINN_HOME` nor `HOME` is set. */
  sessionDir: string | null;
  idleTimeoutMs: number;
}

type Environment = Record<string, string | undefined>;

function readCount(env: Environment, name: string): number | undefined {
  const text = env[name];
  if (text === undefined || text === '') return undefined;
  if (!/^[1-9]\d{0,9}$/.test(text))
    throw new SettingsError(`${name} must be a positive whole number, not ${text}`);
  return Number(text);
}

/** Checks one model entry of a list; `where` names it in the error. */
export function readModelEntry(value: unknown, where: string): ModelEntry {
  const entry = (typeof value === 'object' && value !== null ? value : {}) as Record<string, unknown>;
  const text = (name: string): string => {
    const found = entry[name];
    if (typeof found !== 'string' || found === '')
      throw new SettingsError(`${where}.${name} must be a string`);
    return found;
  };
  const count = (name: 'inputLimit' | 'outputLimit'): { inputLimit?: number; outputLimit?: number } => {
    const found = entry[name];
    if (found === undefined || found === null) return {};
    if (!Number.isSafeInteger(found) || (found as number) < 1) {
      throw new SettingsError(`${where}.${name} must be a positive whole number`);
    }
    return { [name]: found as number };
  };
  return {
    id: text('id'),
    baseUrl: text('baseUrl'),
    ...(entry.apiKey === undefined ? {} : { apiKey: text('apiKey') }),
    ...count('inputLimit'),
    ...count('outputLimit'),
    ...(entry.gateway === true ? { gateway: true } : {}),
  };
}

/** `DJINN_FALLBACKS`: model names separated by commas (same endpoint and key), or a JSON array of model entries. */
function readFallbacks(text: string, primary: ModelEntry): ModelEntry[] {
  if (!text.trim().startsWith('[')) {
    const names = text.split(',').map((name) => name.trim());
    return names.filter((name) => name !== '').map((id) => ({ ...primary, id }));
  }
  let list: unknown;
  try {
    list = JSON.parse(text);
  } catch {
    throw new SettingsError('DJINN_FALLBACKS is neither a list of names nor a JSON array');
  }
  return (list as unknown[]).map((item, index) => {
    const value = typeof item === 'string' ? { id: item } : item;
    const inherited = typeof value === 'object' && value !== null && !('baseUrl' in value);
    const whole = inherited ? { ...primary, ...value } : value;
    return readModelEntry(whole, `DJINN_FALLBACKS[${index}]`);
  });
}

/**
 * A key is enough: base URL and model have defaults. Without a key a base URL is needed (a local server).
 * Throws a SettingsError.
 */
export function readSettings(env: Environment, model?: string): Settings {
  const apiKey = env.DJINN_API_KEY || undefined;
  const baseUrl = env.DJINN_API_BASE || undefined;
  const inputLimit = readCount(env, 'DJINN_INPUT_LIMIT');
  const outputLimit = readCount(env, 'DJINN_OUTPUT_LIMIT');
  if (apiKey === undefined && baseUrl === undefined) {
    throw new SettingsError('set DJINN_API_KEY (or DJINN_API_BASE for a server that needs no key)');
  }
  const primary: ModelEntry = {
    id: model ?? (env.DJINN_MODEL || DEFAULT_MODEL),
    baseUrl: baseUrl ?? DEFAULT_BASE_URL,
    ...(apiKey === undefined ? {} : { apiKey }),
    ...(inputLimit === undefined ? {} : { inputLimit }),
    ...(outputLimit === undefined ? {} : { outputLimit }),
  };
  return {
    models: [primary, ...readFallbacks(env.DJINN_FALLBACKS ?? '', primary)],
    sessionDir: sessionDir(env),
    idleTimeoutMs: readCount(env, 'DJINN_IDLE_TIMEOUT_MS') ?? DEFAULT_IDLE_TIMEOUT_MS,
  };
}

/** `$DJINN_HOME/sessions`, else `~/.djinn/sessions`. */
export function sessionDir(env: Environment): string | null {
  if (env.DJINN_HOME) return `${env.DJINN_HOME}/sessions`;
  return env.HOME ? `${env.HOME}/.djinn/sessions` : null;
}
