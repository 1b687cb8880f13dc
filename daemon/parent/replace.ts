// Replaces this process by another program with the same pid, descriptors and place in the process tree.
import { existsSync } from 'node:fs';
import { join } from 'node:path';
import { execa } from 'execa';
import type { Env } from '../config.ts';

const PATH = '/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin';

/** Does not return. Throws when the program is not installed. */
export function replaceProcess(argv: string[], env: Env): never {
  const [name = ''] = argv;
  const program = PATH.split(':')
    .map((dir) => join(dir, name))
    .find((path) => existsSync(path));
  if (program === undefined) throw new Error(`${name} is not installed`);
  const given = Object.entries(env).filter((pair): pair is [string, string] => pair[1] !== undefined);
  process.execve?.(program, argv, { ...Object.fromEntries(given), PATH });
  throw new Error('this Node cannot replace its process');
}

/** Whether systemd runs here and owns the one hierarchy, so that a cgroup of our own is asked for there. */
export function systemdManagesCgroups(): boolean {
  return existsSync('/run/systemd/system') && existsSync('/sys/fs/cgroup/cgroup.controllers');
}

/**
 * The command that puts what follows it into a delegated scope. What an earlier process, now dead, left in a scope of
 * this name is stopped: nothing of ours may run twice.
 */
export async function delegatedScope(unit: string): Promise<string[]> {
  await execa('systemctl', ['stop', unit], { reject: false });
  await execa('systemctl', ['reset-failed', unit], { reject: false });
  return [
    'systemd-run',
    '--scope',
    '--quiet',
    `--unit=${unit}`,
    '--property=Delegate=yes',
    '--property=TasksMax=infinity',
    '--',
  ];
}
