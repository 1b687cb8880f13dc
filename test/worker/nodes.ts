// Other versions of Node, from their npm packages.
import { execFile } from 'node:child_process';
import { existsSync, mkdirSync } from 'node:fs';
import { homedir } from 'node:os';
import { join } from 'node:path';
import { promisify } from 'node:util';

const cache = join(process.env.XDG_CACHE_HOME ?? join(homedir(), '.cache'), 'djinnd', 'nodes');

/** The path of that Node's binary: fetched once, kept in the user's cache folder. Rejects when it cannot be had. */
export async function fetchNode(version: string): Promise<string> {
  const name = `node-linux-${process.arch}`;
  const folder = join(cache, version);
  const binary = join(folder, 'node_modules', name, 'bin', 'node');
  if (!existsSync(binary)) {
    mkdirSync(folder, { recursive: true });
    const options = ['--no-save', '--ignore-scripts', '--no-audit', '--no-fund', '--force'];
    await promisify(execFile)('npm', ['install', '--prefix', folder, ...options, `${name}@${version}`], {
      timeout: 240_000,
    });
  }
  return binary;
}
