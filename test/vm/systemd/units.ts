// Installs the shipped units in the guest with a stand-in program, everything else in them unchanged.
import assert from 'node:assert/strict';
import { execFileSync } from 'node:child_process';
import { existsSync, mkdirSync, readFileSync, writeFileSync } from 'node:fs';
import { dirname, join } from 'node:path';
import { timeScale } from '../guest.ts';

const repository = dirname(dirname(dirname(import.meta.dirname)));
const INSTALLED = '/opt/djinnd/current';

export const systemctl = (...args: string[]): string =>
  execFileSync('systemctl', args, { encoding: 'utf8' }).trim();

/** The repository as an installed version, so that `ProtectHome=` is met wherever the clone lies. */
function install(): void {
  if (existsSync(join(INSTALLED, 'package.json'))) return;
  mkdirSync(INSTALLED, { recursive: true });
  execFileSync('mount', ['--bind', repository, INSTALLED]);
}

/** Writes the shipped unit as `<name>-trial.service` with another program; returns that name. */
export function installTrial(name: string, program: string, argument: string): string {
  install();
  const shipped = readFileSync(join(repository, 'systemd', `${name}.service`), 'utf8');
  const node = `${INSTALLED}/node_modules/.bin/node`;
  const line = `ExecStart=${node} ${INSTALLED}/test/vm/systemd/${program} ${argument}`;
  const trial = shipped.replace(/^ExecStart=.*$/m, line);
  assert.notEqual(trial, shipped);
  writeFileSync(`/etc/systemd/system/${name}-trial.service`, trial);
  systemctl('daemon-reload');
  return `${name}-trial.service`;
}

/** Waits for what the stand-in wrote down, from another process than `unlikePid`. */
export async function reportOf<T extends object>(unit: string, file: string, unlikePid = 0): Promise<T> {
  const end = Date.now() + 6000 * timeScale;
  while (Date.now() < end) {
    if (existsSync(file)) {
      const facts = JSON.parse(readFileSync(file, 'utf8')) as T & { pid?: number };
      if (facts.pid !== unlikePid) return facts;
    }
    await new Promise((resolve) => setTimeout(resolve, 100));
  }
  const journal = execFileSync('journalctl', ['-u', unit, '-n', '30', '--no-pager'], { encoding: 'utf8' });
  throw new Error(`${unit} wrote no report\n${journal}`);
}
