// Engine definitions: which programs jobs may run. Read from root-owned folders only; never from a request.
import { lstatSync, readdirSync, readFileSync } from 'node:fs';
import { basename, join } from 'node:path';

export type EngineKind = 'djinn' | 'command';

export interface EngineDefinition {
  name: string;
  kind: EngineKind;
  /** The program's command line inside the sandbox. */
  argv: string[];
  /** Files beside the definition that are shown at /opt/djinn/engine. */
  files: string[];
  /** The folder that the definition and its files come from. */
  dir: string;
}

export interface EngineFolder {
  path: string;
  /** True: everything in it must belong to root and be writable by nobody else. */
  rootOwned: boolean;
}

export interface LoadedEngines {
  engines: Map<string, EngineDefinition>;
  /** One sentence for each file that was left out. */
  problems: string[];
}

const NAME = /^[a-z][a-z0-9-]{0,31}$/;
const FILE_NAME = /^[A-Za-z0-9_-][A-Za-z0-9._-]{0,99}$/;
const DJINN_ARGV = ['/opt/djinn/node', '/opt/djinn/djinn.cjs', '--job', '-'];
const MAX_DEFINITION_BYTES = 64 * 1024;

/** Throws when `path` is not a plain file or folder that only root can change. */
export function checkRootOwned(path: string): void {
  const stat = lstatSync(path);
  if (!stat.isFile() && !stat.isDirectory()) throw new Error(`${path} is neither a file nor a folder`);
  if (stat.uid !== 0) throw new Error(`${path} does not belong to root`);
  if ((stat.mode & 0o022) !== 0) throw new Error(`${path} can be written by others than root`);
}

function isStringList(value: unknown): value is string[] {
  return Array.isArray(value) && value.every((item) => typeof item === 'string' && !item.includes('\0'));
}

/** Checks one definition's JSON. Throws an Error with what is wrong. */
export function parseDefinition(text: string, dir: string): EngineDefinition {
  const value: unknown = JSON.parse(text);
  if (typeof value !== 'object' || value === null || Array.isArray(value))
    throw new Error('not a JSON object');
  const { name, kind, argv, files = [], ...others } = value as Record<string, unknown>;
  const [unknownField] = Object.keys(others);
  if (unknownField !== undefined) throw new Error(`unknown field ${unknownField}`);
  if (typeof name !== 'string' || !NAME.test(name)) throw new Error(`name must match ${NAME.source}`);
  if (kind !== 'djinn' && kind !== 'command') throw new Error('kind must be djinn or command');
  if (!isStringList(files) || !files.every((file) => FILE_NAME.test(file))) {
    throw new Error('files must be plain file names in the folder of the definition');
  }
  if (kind === 'djinn') {
    if (argv !== undefined) throw new Error('kind djinn takes no argv');
    return { name, kind, argv: DJINN_ARGV, files, dir };
  }
  if (!isStringList(argv) || argv.length === 0) throw new Error('kind command needs argv, a list of strings');
  if (argv[0]?.startsWith('/') !== true)
    throw new Error('argv[0] must be an absolute path inside the sandbox');
  return { name, kind, argv, files, dir };
}

function readDefinition(folder: EngineFolder, file: string): EngineDefinition {
  const path = join(folder.path, file);
  if (folder.rootOwned) checkRootOwned(path);
  const stat = lstatSync(path);
  if (!stat.isFile() || stat.size > MAX_DEFINITION_BYTES)
    throw new Error('not a plain file of at most 64 KiB');
  const definition = parseDefinition(readFileSync(path, 'utf8'), folder.path);
  if (definition.name !== basename(file, '.json'))
    throw new Error(`name must be the file's name, not ${definition.name}`);
  if (folder.rootOwned) for (const name of definition.files) checkRootOwned(join(folder.path, name));
  return definition;
}

function definitionFiles(folder: EngineFolder): string[] {
  try {
    if (folder.rootOwned) checkRootOwned(folder.path);
    return readdirSync(folder.path)
      .filter((name) => name.endsWith('.json'))
      .sort();
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code === 'ENOENT') return [];
    throw error;
  }
}

/** Reads every folder; a definition in a later one replaces the same name of an earlier one. A bad file is left out and named. */
export function loadEngines(folders: readonly EngineFolder[]): LoadedEngines {
  const engines = new Map<string, EngineDefinition>();
  const problems: string[] = [];
  for (const folder of folders) {
    let files: string[] = [];
    try {
      files = definitionFiles(folder);
    } catch (error) {
      problems.push(`${folder.path}: ${(error as Error).message}`);
    }
    for (const file of files) {
      try {
        const definition = readDefinition(folder, file);
        engines.set(definition.name, definition);
      } catch (error) {
        problems.push(`${join(folder.path, file)}: ${(error as Error).message}`);
      }
    }
  }
  return { engines, problems };
}
