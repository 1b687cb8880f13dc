// The log of every process: pino on stderr, one JSON line per entry, secrets masked. Never writes to stdout.
import { type DestinationStream, destination, type Logger, pino } from 'pino';
import type { Config } from './config.ts';

export type { Logger } from 'pino';

const SECRET_FIELDS = [
  'apiKey',
  'authorization',
  'password',
  'secret',
  'token',
  'databaseUrl',
  'connectionString',
];
const KEY_PATTERN = /djk_[A-Za-z0-9_-]{8,}/g;

/**
 * Creates the logger of one process. Masked are fields named like a secret (two levels deep), every caller key
 * (`djk_…`) and the very values of the configured secrets wherever they appear in a line.
 */
export function createLogger(
  config: Pick<Config, 'logLevel'> & Partial<Pick<Config, 'model' | 'databaseUrl'>>,
  name: string,
  stream: DestinationStream = destination({ fd: 2, sync: true }),
): Logger {
  const values = secretValues(config);
  return pino(
    {
      name,
      level: config.logLevel,
      base: { name, pid: process.pid },
      timestamp: () => `,"time":"${new Date().toISOString()}"`,
      formatters: { level: (label) => ({ level: label }) },
      redact: {
        paths: SECRET_FIELDS.flatMap((field) => [field, `*.${field}`, `*.*.${field}`]),
        censor: '[masked]',
      },
      hooks: { streamWrite: (line) => maskSecrets(line, values) },
    },
    stream,
  );
}

/** Replaces caller keys and the given values in a text. */
export function maskSecrets(line: string, values: readonly string[]): string {
  let masked = line.includes('djk_') ? line.replace(KEY_PATTERN, 'djk_[masked]') : line;
  for (const value of values) if (masked.includes(value)) masked = masked.replaceAll(value, '[masked]');
  return masked;
}

function secretValues(config: Partial<Pick<Config, 'model' | 'databaseUrl'>>): string[] {
  const values: string[] = [];
  const apiKey = config.model?.apiKey;
  if (apiKey !== null && apiKey !== undefined && apiKey.length >= 6) values.push(apiKey);
  const password = /^[a-z]+:\/\/[^:@/]*:([^@/]+)@/.exec(config.databaseUrl ?? '')?.[1];
  if (password !== undefined && password.length >= 4) values.push(password, decoded(password));
  return values;
}

/** As the database gets it; a text that is not percent-encoded stays as it is. */
function decoded(text: string): string {
  try {
    return decodeURIComponent(text);
  } catch {
    return text;
  }
}
