// Checks what somebody wrote down about one model: its address, key, headers and limits. Reads the files and variables
// that a key is said to be in; never puts a key into a message.
import { readFileSync } from 'node:fs';
import { dirname, resolve } from 'node:path';
import { BaseUrlError, parseBaseUrl } from './models/base-url.ts';
import type { ModelEntry } from './protocol.ts';

/** A setting that cannot be used; the message says which and what it should be. */
export class SettingsError extends Error {}

export type Environment = Record<string, string | undefined>;

/** Where `{"env": …}` and `{"file": …}` lead. */
export interface SecretPlace {
  env: Environment;
  /** Relative files are looked for beside this one. */
  file: string | null;
  /** Collects the names of the variables that were read. */
  variables: Set<string>;
}

type Json = Record<string, unknown>;
export const isObject = (value: unknown): value is Json =>
  typeof value === 'object' && value !== null && !Array.isArray(value);

export function refuseUnknown(object: Json, known: readonly string[], where: string): void {
  for (const name of Object.keys(object)) {
    if (!known.includes(name))
      throw new SettingsError(`${where}.${name} is unknown; known are ${known.join(', ')}`);
  }
}

/** A whole number of at least 1, or undefined when the field is absent. */
export function readCountField(object: Json, name: string, where: string): number | undefined {
  const found = object[name];
  if (found === undefined || found === null) return undefined;
  if (!Number.isSafeInteger(found) || (found as number) < 1)
    throw new SettingsError(`${where}.${name} must be a positive whole number`);
  return found as number;
}

function readText(object: Json, name: string, where: string): string {
  const found = object[name];
  if (typeof found !== 'string' || found.trim() === '')
    throw new SettingsError(`${where}.${name} must be a string`);
  return found;
}

/** A key as a header may carry it: blanks around it, such as the end of a file's line, do not belong to it. */
export function checkSecret(value: string, where: string): string {
  const secret = value.trim();
  if (secret === '') throw new SettingsError(`${where} is empty`);
  if (!/^[\x20-\x7e]+$/.test(secret))
    throw new SettingsError(`${where} holds characters that a header cannot carry`);
  return secret;
}

/** The text of a file that holds a key; `~/` is the home folder. */
export function readSecretFile(
  path: string,
  place: Pick<SecretPlace, 'env' | 'file'>,
  where: string,
): string {
  const home = place.env.HOME ?? '';
  const whole = path.startsWith('~/') ? `${home}${path.slice(1)}` : path;
  const base = place.file === null ? process.cwd() : dirname(place.file);
  try {
    return checkSecret(readFileSync(resolve(base, whole), 'utf8'), where);
  } catch (error) {
    if (error instanceof SettingsError) throw error;
    throw new SettingsError(`${where}: cannot read ${whole}: ${(error as NodeJS.ErrnoException).code}`);
  }
}

/** A secret is a string, `{"env": NAME}` or `{"file": PATH}`. */
function readSecret(value: unknown, where: string, place: SecretPlace | null): string {
  if (typeof value === 'string') return checkSecret(value, where);
  if (place !== null && isObject(value) && Object.keys(value).length === 1) {
    if (typeof value.env === 'string') {
      place.variables.add(value.env);
      const found = place.env[value.env];
      if (found === undefined || found === '') throw new SettingsError(`${where}: ${value.env} is not set`);
      return checkSecret(found, where);
    }
    if (typeof value.file === 'string') return readSecretFile(value.file, place, where);
  }
  const forms = place === null ? 'a string' : 'a string, {"env": NAME} or {"file": PATH}';
  throw new SettingsError(`${where} must be ${forms}`);
}

/** Headers that belong to the request itself. */
const OWN_HEADERS = new Set(['host', 'content-length', 'content-type', 'transfer-encoding', 'connection']);

function readHeaders(value: unknown, where: string, place: SecretPlace | null): Record<string, string> {
  if (!isObject(value)) throw new SettingsError(`${where} must be an object`);
  const headers: Record<string, string> = {};
  for (const [name, one] of Object.entries(value)) {
    if (!/^[!#$%&'*+.^_`|~0-9A-Za-z-]+$/.test(name) || OWN_HEADERS.has(name.toLowerCase()))
      throw new SettingsError(`${where}.${name} cannot be set`);
    headers[name.toLowerCase()] = readSecret(one, `${where}.${name}`, place);
  }
  return headers;
}

const FIELDS = ['id', 'baseUrl', 'apiKey', 'headers', 'inputLimit', 'outputLimit'];

/**
 * Checks one model entry; `where` names it in the error. With a `place` (settings of a person) keys may be elsewhere
 * and unknown fields are refused; without one (the job of a supervisor) they are ignored. Throws a SettingsError.
 */
export function readModelEntry(value: unknown, where: string, place: SecretPlace | null = null): ModelEntry {
  if (!isObject(value)) throw new SettingsError(`${where} must be an object`);
  if (place !== null) refuseUnknown(value, FIELDS, where);
  const inputLimit = readCountField(value, 'inputLimit', where);
  const outputLimit = readCountField(value, 'outputLimit', where);
  const entry: ModelEntry = {
    id: readText(value, 'id', where),
    baseUrl: readText(value, 'baseUrl', where),
    ...(value.apiKey === undefined || (value.apiKey === '' && place === null)
      ? {}
      : { apiKey: readSecret(value.apiKey, `${where}.apiKey`, place) }),
    ...(value.headers === undefined
      ? {}
      : { headers: readHeaders(value.headers, `${where}.headers`, place) }),
    ...(inputLimit === undefined ? {} : { inputLimit }),
    ...(outputLimit === undefined ? {} : { outputLimit }),
    ...(place === null && value.gateway === true ? { gateway: true } : {}),
  };
  try {
    parseBaseUrl(entry.baseUrl);
  } catch (error) {
    throw error instanceof BaseUrlError ? new SettingsError(`${where}.baseUrl: ${error.message}`) : error;
  }
  return entry;
}
