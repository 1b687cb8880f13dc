// Reads the worker's environment and the configuration file that it may name; no other file of the worker looks at it.
import { existsSync } from 'node:fs';
import { type Config, readConfigFile } from './config-file.ts';
import {
  checkSecret,
  type Environment,
  isObject,
  readModelEntry,
  readSecretFile,
  type SecretPlace,
  SettingsError,
} from './model-entry.ts';
import type { ModelEntry } from './protocol.ts';

export { readModelEntry, SettingsError } from './model-entry.ts';

export const DEFAULT_BASE_URL = 'https://api.deepseek.com/v1';
export const DEFAULT_MODEL = 'deepseek-chat';
/**
 * Longest time without data from a model; comments that keep a connection warm do not count. Models that think long
 * are silent for more than five minutes.
 */
export const DEFAULT_IDLE_TIMEOUT_MS = 600_000;
/** How long such comments may hold a request that has no data yet: DeepSeek lets one wait for up to 30 minutes. */
export const DEFAULT_QUEUE_TIMEOUT_MS = 1_860_000;

export interface Settings {
  models: ModelEntry[];
  /** Folder of the session logs; null when neither `DJINN_HOME` nor `HOME` is set. */
  sessionDir: string | null;
  /** Where it is remembered which models are left alone; null like `sessionDir`. */
  coolingFile: string | null;
  idleTimeoutMs: number;
  queueTimeoutMs: number;
  /** Variables that hold or may hold a key: tools must not inherit them. */
  secretVariables: string[];
}

function readCount(env: Environment, name: string): number | undefined {
  const text = env[name];
  if (text === undefined || text === '') return undefined;
  if (!/^[1-9]\d{0,9}$/.test(text))
    throw new SettingsError(`${name} must be a positive whole number, not ${text}`);
  return Number(text);
}

/** The folder of everything that is kept: `$DJINN_HOME`, else `~/.djinn`. */
function homeFolder(env: Environment): string | null {
  if (env.DJINN_HOME) return env.DJINN_HOME;
  return env.HOME ? `${env.HOME}/.djinn` : null;
}

/** `$DJINN_HOME/sessions`, else `~/.djinn/sessions`. */
export function sessionDir(env: Environment): string | null {
  const home = homeFolder(env);
  return home === null ? null : `${home}/sessions`;
}

/** `DJINN_API_KEY`, else the content of the file `DJINN_API_KEY_FILE`. */
function readKey(env: Environment, place: SecretPlace): { apiKey?: string } {
  if (env.DJINN_API_KEY) return { apiKey: checkSecret(env.DJINN_API_KEY, 'DJINN_API_KEY') };
  const file = env.DJINN_API_KEY_FILE;
  return file ? { apiKey: readSecretFile(file, place, 'DJINN_API_KEY_FILE') } : {};
}

/** `DJINN_FALLBACKS`: model names separated by commas (same endpoint and key), or a JSON array of model entries. */
function readFallbacks(text: string, primary: ModelEntry, place: SecretPlace): ModelEntry[] {
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
    const whole = isObject(value) && value.baseUrl === undefined ? { ...primary, ...value } : value;
    return readModelEntry(whole, `DJINN_FALLBACKS[${index}]`, place);
  });
}

/** A key is enough: base URL and model have defaults. Without a key a base URL is needed (a local server). */
function modelsOfEnvironment(env: Environment, model: string | undefined, place: SecretPlace): ModelEntry[] {
  const key = readKey(env, place);
  const baseUrl = env.DJINN_API_BASE || undefined;
  const inputLimit = readCount(env, 'DJINN_INPUT_LIMIT');
  const outputLimit = readCount(env, 'DJINN_OUTPUT_LIMIT');
  if (key.apiKey === undefined && baseUrl === undefined) {
    throw new SettingsError(
      'set DJINN_API_KEY (or DJINN_API_BASE for a server that needs no key), or write a config.json',
    );
  }
  const primary: ModelEntry = {
    id: model ?? (env.DJINN_MODEL || DEFAULT_MODEL),
    baseUrl: baseUrl ?? DEFAULT_BASE_URL,
    ...key,
    ...(inputLimit === undefined ? {} : { inputLimit }),
    ...(outputLimit === undefined ? {} : { outputLimit }),
  };
  return [primary, ...readFallbacks(env.DJINN_FALLBACKS ?? '', primary, place)];
}

/** The file that was named, else `config.json` of the home folder unless the environment says where to ask. */
function findConfig(env: Environment, named: string | undefined): string | null {
  const path = named ?? (env.DJINN_CONFIG || undefined);
  if (path !== undefined) return path;
  const home = homeFolder(env);
  if (home === null || env.DJINN_API_KEY || env.DJINN_API_KEY_FILE || env.DJINN_API_BASE) return null;
  return existsSync(`${home}/config.json`) ? `${home}/config.json` : null;
}

/** The wanted model comes first, the others stay its fallbacks in their order. */
function wantedFirst(models: ModelEntry[], wanted: string | undefined, path: string): ModelEntry[] {
  if (wanted === undefined) return models;
  const first = models.find(({ id }) => id === wanted);
  if (first === undefined) {
    const ids = models.map(({ id }) => id).join(', ');
    throw new SettingsError(`${path} has no model ${wanted}; it has ${ids}`);
  }
  return [first, ...models.filter((entry) => entry !== first)];
}

/** Settings of one model that a file with several cannot take. */
const PRIMARY_ONLY = ['DJINN_FALLBACKS', 'DJINN_INPUT_LIMIT', 'DJINN_OUTPUT_LIMIT'];

function readConfig(env: Environment, path: string, model: string | undefined, place: SecretPlace): Config {
  const extra = PRIMARY_ONLY.find((name) => env[name]);
  if (extra !== undefined) throw new SettingsError(`${extra} is set, but the models come from ${path}`);
  const inherited = { baseUrl: env.DJINN_API_BASE || DEFAULT_BASE_URL, ...readKey(env, place) };
  const config = readConfigFile(path, inherited, place);
  const models = wantedFirst(config.models, model ?? (env.DJINN_MODEL || undefined), path);
  return { ...config, models };
}

/** Settings of a run; `model` and `configFile` are those of the command line. Throws a SettingsError. */
export function readSettings(
  env: Environment,
  { model, configFile }: { model?: string | undefined; configFile?: string | undefined } = {},
): Settings {
  const variables = new Set(['DJINN_API_KEY', 'DJINN_FALLBACKS']);
  const place: SecretPlace = { env, file: null, variables };
  const path = findConfig(env, configFile);
  const config: Config =
    path === null ? { models: modelsOfEnvironment(env, model, place) } : readConfig(env, path, model, place);
  const idle = readCount(env, 'DJINN_IDLE_TIMEOUT_MS') ?? config.idleTimeoutMs;
  const queue = readCount(env, 'DJINN_QUEUE_TIMEOUT_MS') ?? config.queueTimeoutMs;
  const home = homeFolder(env);
  return {
    models: config.models,
    sessionDir: sessionDir(env),
    coolingFile: home === null ? null : `${home}/cooling.json`,
    idleTimeoutMs: idle ?? DEFAULT_IDLE_TIMEOUT_MS,
    // Whoever sets one limit means it for all waiting.
    queueTimeoutMs: queue ?? idle ?? DEFAULT_QUEUE_TIMEOUT_MS,
    secretVariables: [...variables],
  };
}
