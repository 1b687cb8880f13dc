// Reads the file that says which models a person uses. Strict: what it does not know, it refuses by name.
import { readFileSync } from 'node:fs';
import {
  isObject,
  readCountField,
  readModelEntry,
  refuseUnknown,
  type SecretPlace,
  SettingsError,
} from './model-entry.ts';
import type { ModelEntry } from './protocol.ts';

export interface Config {
  models: ModelEntry[];
  idleTimeoutMs?: number;
  queueTimeoutMs?: number;
}

function parse(path: string): unknown {
  let text: string;
  try {
    text = readFileSync(path, 'utf8');
  } catch (error) {
    throw new SettingsError(
      `cannot read the configuration ${path}: ${(error as NodeJS.ErrnoException).code}`,
    );
  }
  try {
    return JSON.parse(text.replace(/^\uFEFF/, ''));
  } catch (error) {
    // Newer Nodes quote the text around the mistake, and that text may be a key.
    const at = /position \d+|line \d+ column \d+/.exec((error as Error).message)?.[0];
    throw new SettingsError(`${path} is not valid JSON${at === undefined ? '' : ` (${at})`}`);
  }
}

/**
 * `{models: [{id, baseUrl?, apiKey?, headers?, inputLimit?, outputLimit?}, …], idleTimeoutMs?, queueTimeoutMs?}`, the
 * primary first. An entry without `baseUrl` gets what `inherited` says. Throws a SettingsError.
 */
export function readConfigFile(path: string, inherited: Partial<ModelEntry>, place: SecretPlace): Config {
  const value = parse(path);
  if (!isObject(value)) throw new SettingsError(`${path} must hold an object`);
  refuseUnknown(value, ['models', 'idleTimeoutMs', 'queueTimeoutMs'], path);
  const { models } = value;
  if (!Array.isArray(models) || models.length === 0)
    throw new SettingsError(`${path}.models must be a list with at least one model`);
  const idleTimeoutMs = readCountField(value, 'idleTimeoutMs', path);
  const queueTimeoutMs = readCountField(value, 'queueTimeoutMs', path);
  return {
    models: models.map((one: unknown, index) => {
      const whole = isObject(one) && one.baseUrl === undefined ? { ...inherited, ...one } : one;
      return readModelEntry(whole, `${path}.models[${index}]`, { ...place, file: path });
    }),
    ...(idleTimeoutMs === undefined ? {} : { idleTimeoutMs }),
    ...(queueTimeoutMs === undefined ? {} : { queueTimeoutMs }),
  };
}
