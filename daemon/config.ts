// The one reader of the environment: turns it into a checked Config, or says what is wrong and what to write instead.
import { isIP } from 'node:net';
import { homedir } from 'node:os';
import { join } from 'node:path';

export type Env = Record<string, string | undefined>;

export interface Address {
  host: string;
  port: number;
}

/** Settings of every process of djinnd. Times in milliseconds. */
export interface Config {
  /** Keeps several daemons on one machine apart: part of the default directories. Empty for the installed one. */
  instance: string;
  stateDir: string;
  runDir: string;
  jobsRunDir: string;
  enginesDir: string;
  /** The delegated cgroup; null: the spawner looks for its own. */
  cgroupRoot: string | null;
  listen: Address;
  metricsListen: Address;
  /** Allows listening beyond loopback without TLS. */
  allowPlainListen: boolean;
  /** null: the embedded Postgres of this instance. */
  databaseUrl: string | null;
  enforcement: 'strict' | 'best-effort';
  logLevel: string;
  /** Jobs that this machine runs at a time. */
  maxRunning: number;
  stopGraceMs: number;
  model: ModelConfig;
}

export interface ModelConfig {
  apiKey: string | null;
  baseUrl: string;
  name: string;
  inputLimit?: number;
  outputLimit?: number;
}

/** A setting that cannot be used; the message names it and says what to write. */
export class ConfigError extends Error {}

const NAMES = new Set([
  'DJINND_INSTANCE',
  'DJINND_STATE_DIR',
  'DJINND_RUN_DIR',
  'DJINND_JOBS_RUN_DIR',
  'DJINND_ENGINES_DIR',
  'DJINND_CGROUP_ROOT',
  'DJINND_LISTEN',
  'DJINND_METRICS_LISTEN',
  'DJINND_ALLOW_PLAIN_LISTEN',
  'DJINND_ENFORCEMENT',
  'DJINND_LOG_LEVEL',
  'DJINND_MAX_RUNNING',
  'DJINND_STOP_GRACE_MS',
]);

/** Root and system users such as djinnd share the machine's directories; people have their own (login.defs, SYS_UID_MAX). */
const LAST_SYSTEM_UID = 999;

const LOG_LEVELS = ['trace', 'debug', 'info', 'warn', 'error', 'fatal', 'silent'];

/** The process's own environment, for the composition roots that hand parts of it on. */
export function processEnv(): Env {
  return process.env;
}

/**
 * Reads the settings. Empty values count as absent. `uid` decides the default directories: the machine's
 * for root and system users, those of the XDG base directories for people.
 * Throws ConfigError.
 */
export function loadConfig(env: Env, uid: number = process.getuid?.() ?? 0): Config {
  refuseUnknown(env);
  const instance = text(env, 'DJINND_INSTANCE') ?? '';
  if (!/^([a-z0-9][a-z0-9-]{0,31})?$/.test(instance)) {
    throw new ConfigError(`DJINND_INSTANCE is "${instance}": use up to 32 of a-z, 0-9 and -`);
  }
  const places = defaultPlaces(env, instance, uid);
  const runDir = directory(env, 'DJINND_RUN_DIR') ?? places.runDir;
  return {
    instance,
    stateDir: directory(env, 'DJINND_STATE_DIR') ?? places.stateDir,
    runDir,
    jobsRunDir: directory(env, 'DJINND_JOBS_RUN_DIR') ?? places.jobsRunDir(runDir),
    enginesDir: directory(env, 'DJINND_ENGINES_DIR') ?? '/etc/djinnd/engines.d',
    cgroupRoot: directory(env, 'DJINND_CGROUP_ROOT'),
    listen: address(env, 'DJINND_LISTEN', '127.0.0.1:8420'),
    metricsListen: address(env, 'DJINND_METRICS_LISTEN', '127.0.0.1:9464'),
    allowPlainListen: flag(env, 'DJINND_ALLOW_PLAIN_LISTEN'),
    databaseUrl: databaseUrl(env),
    enforcement: choice(env, 'DJINND_ENFORCEMENT', ['strict', 'best-effort'], 'strict'),
    logLevel: choice(env, 'DJINND_LOG_LEVEL', LOG_LEVELS, 'info'),
    maxRunning: count(env, 'DJINND_MAX_RUNNING', 1, 10_000) ?? 16,
    stopGraceMs: count(env, 'DJINND_STOP_GRACE_MS', 0, 3_600_000) ?? 20_000,
    model: modelConfig(env),
  };
}

/** The settings as an environment again, for a child that is to run with the same ones; without any secret. */
export function configEnv(config: Config): Record<string, string> {
  const at = ({ host, port }: Address) => (host.includes(':') ? `[${host}]:${port}` : `${host}:${port}`);
  return {
    ...(config.instance === '' ? {} : { DJINND_INSTANCE: config.instance }),
    DJINND_STATE_DIR: config.stateDir,
    DJINND_RUN_DIR: config.runDir,
    DJINND_JOBS_RUN_DIR: config.jobsRunDir,
    DJINND_ENGINES_DIR: config.enginesDir,
    ...(config.cgroupRoot === null ? {} : { DJINND_CGROUP_ROOT: config.cgroupRoot }),
    DJINND_LISTEN: at(config.listen),
    DJINND_METRICS_LISTEN: at(config.metricsListen),
    ...(config.allowPlainListen ? { DJINND_ALLOW_PLAIN_LISTEN: '1' } : {}),
    DJINND_ENFORCEMENT: config.enforcement,
    DJINND_LOG_LEVEL: config.logLevel,
    DJINND_MAX_RUNNING: String(config.maxRunning),
    DJINND_STOP_GRACE_MS: String(config.stopGraceMs),
  };
}

/** The model's settings as an environment: holds the provider's key, so it goes to djinnd alone. */
export function modelEnv({ model }: Config): Record<string, string> {
  return {
    ...(model.apiKey === null ? {} : { DJINN_API_KEY: model.apiKey }),
    DJINN_API_BASE: model.baseUrl,
    DJINN_MODEL: model.name,
    ...(model.inputLimit === undefined ? {} : { DJINN_INPUT_LIMIT: String(model.inputLimit) }),
    ...(model.outputLimit === undefined ? {} : { DJINN_OUTPUT_LIMIT: String(model.outputLimit) }),
  };
}

function refuseUnknown(env: Env): void {
  for (const name of Object.keys(env)) {
    if (name.startsWith('DJINND_') && !NAMES.has(name)) {
      throw new ConfigError(`${name} is not a setting of djinnd; known are ${[...NAMES].join(', ')}`);
    }
  }
}

function defaultPlaces(env: Env, instance: string, uid: number) {
  const suffix = instance === '' ? '' : `-${instance}`;
  if (uid <= LAST_SYSTEM_UID) {
    return {
      stateDir: `/var/lib/djinnd${suffix}`,
      runDir: `/run/djinnd${suffix}`,
      jobsRunDir: (runDir: string) => `${runDir}-jobs`,
    };
  }
  const state = text(env, 'XDG_STATE_HOME') ?? join(text(env, 'HOME') ?? homedir(), '.local/state');
  const runtime = text(env, 'XDG_RUNTIME_DIR');
  return {
    stateDir: join(state, `djinnd${suffix}`),
    runDir: runtime === null ? `/tmp/djinnd-${uid}${suffix}` : join(runtime, `djinnd${suffix}`),
    jobsRunDir: (runDir: string) => join(runDir, 'jobs'),
  };
}

function modelConfig(env: Env): ModelConfig {
  const baseUrl = text(env, 'DJINN_API_BASE') ?? 'https://api.openai.com/v1';
  if (!/^(https?:\/\/|unix:\/)/.test(baseUrl)) {
    throw new ConfigError(
      'DJINN_API_BASE must start with https://, http:// or unix:/, such as https://api.openai.com/v1',
    );
  }
  const inputLimit = count(env, 'DJINN_INPUT_LIMIT', 1, 100_000_000);
  const outputLimit = count(env, 'DJINN_OUTPUT_LIMIT', 1, 100_000_000);
  return {
    apiKey: text(env, 'DJINN_API_KEY'),
    baseUrl: baseUrl.replace(/\/+$/, ''),
    name: text(env, 'DJINN_MODEL') ?? 'gpt-4.1-mini',
    ...(inputLimit === null ? {} : { inputLimit }),
    ...(outputLimit === null ? {} : { outputLimit }),
  };
}

function text(env: Env, name: string): string | null {
  const value = env[name];
  return value === undefined || value === '' ? null : value;
}

function directory(env: Env, name: string): string | null {
  const value = text(env, name);
  if (value === null) return null;
  if (!value.startsWith('/') || value.split('/').includes('..')) {
    throw new ConfigError(`${name} is "${value}": use an absolute path`);
  }
  if (/^\/(proc|sys|dev)(\/|$)/.test(value) && name !== 'DJINND_CGROUP_ROOT') {
    throw new ConfigError(`${name} is "${value}": no files can be kept there`);
  }
  return value.replace(/(.)\/+$/, '$1');
}

function databaseUrl(env: Env): string | null {
  const value = text(env, 'DATABASE_URL');
  if (value !== null && !/^(postgres(ql)?:\/\/|socket:)/.test(value)) {
    throw new ConfigError(
      'DATABASE_URL must start with postgresql://, such as postgresql://djinnd@db.example/djinnd',
    );
  }
  // The value is not repeated: it holds a password. Without a host, as for a unix socket, it is no URL to the standard.
  if (value !== null && !value.startsWith('socket:') && !URL.canParse(value.replace('@/', '@host/'))) {
    throw new ConfigError(
      'DATABASE_URL cannot be read: write signs such as / : @ in the password as %2F %3A %40, and the port as a number',
    );
  }
  return value;
}

function address(env: Env, name: string, fallback: string): Address {
  const value = text(env, name) ?? fallback;
  const match = /^(?:\[([0-9a-fA-F:.]+)\]|([^:[\]]+)):(\d{1,5})$/.exec(value);
  const port = Number(match?.[3]);
  if (match === null || port > 65_535)
    throw new ConfigError(`${name} is "${value}": write host:port, such as ${fallback}`);
  return { host: match[1] ?? match[2] ?? '', port };
}

function flag(env: Env, name: string): boolean {
  return choice(env, name, ['1', 'true', '0', 'false'], 'false').match(/^(1|true)$/) !== null;
}

function choice<T extends string>(env: Env, name: string, values: readonly T[], fallback: T): T {
  const value = text(env, name) ?? fallback;
  const found = values.find((one) => one === value);
  if (found === undefined) throw new ConfigError(`${name} is "${value}": use one of ${values.join(', ')}`);
  return found;
}

function count(env: Env, name: string, least: number, most: number): number | null {
  const value = text(env, name);
  if (value === null) return null;
  const number = /^\d{1,10}$/.test(value) ? Number(value) : Number.NaN;
  if (!(number >= least && number <= most)) {
    throw new ConfigError(`${name} is "${value}": use a whole number from ${least} to ${most}`);
  }
  return number;
}

/** Keys and prompts must not cross a network in the clear by accident. Throws ConfigError. */
export function refusePlainListen({ listen, metricsListen, allowPlainListen }: Config): void {
  if (allowPlainListen || (isLoopback(listen) && isLoopback(metricsListen))) return;
  throw new ConfigError(
    'DJINND_LISTEN or DJINND_METRICS_LISTEN is beyond loopback and there is no TLS here: listen on 127.0.0.1 behind a ' +
      'TLS proxy, or set DJINND_ALLOW_PLAIN_LISTEN=1 where the network itself is trusted',
  );
}

function isLoopback({ host }: Address): boolean {
  return host === 'localhost' || host === '::1' || (isIP(host) === 4 && host.startsWith('127.'));
}
