// What a stopped instance must not leave: processes, cgroups, mounts, sockets, run directories.
import { execFileSync } from 'node:child_process';
import { existsSync, readdirSync, readFileSync, rmSync } from 'node:fs';
import { join } from 'node:path';
import type { TestDaemon } from '../support/daemon.ts';

/** One line for each thing of the instance that is still there. State directories may stay. */
export function leftovers({ runDir, jobsRunDir }: Pick<TestDaemon, 'runDir' | 'jobsRunDir'>): string[] {
  const name = runDir.slice(runDir.lastIndexOf('/') + 1);
  const found = [runDir, jobsRunDir].filter(existsSync);
  found.push(...cgroupsNamed('/sys/fs/cgroup', name));
  for (const line of readFileSync('/proc/self/mounts', 'utf8').split('\n')) {
    if (line.includes(`${runDir}/`) || line.includes(jobsRunDir)) found.push(`mount: ${line}`);
  }
  for (const line of execFileSync('ps', ['-eo', 'pid=,stat=,args='], { encoding: 'utf8' }).split('\n')) {
    const isZombie = / Z/.test(line); // dead; waits for this machine's init to take note
    if (!isZombie && line.includes(`${runDir}/`)) found.push(`process: ${line.slice(0, 160)}`);
  }
  return found;
}

function cgroupsNamed(dir: string, name: string, depth = 0): string[] {
  if (depth > 4) return [];
  const children = readdirSync(dir, { withFileTypes: true }).filter((entry) => entry.isDirectory());
  return children.flatMap((entry) => {
    const path = join(dir, entry.name);
    return entry.name.startsWith(name) ? [path] : cgroupsNamed(path, name, depth + 1);
  });
}

/** The end of a test file: nothing of the run is left, and then the state goes too. */
export function cleanState(daemon: Pick<TestDaemon, 'runDir' | 'jobsRunDir' | 'stateDir'>): string[] {
  const found = leftovers(daemon);
  rmSync(daemon.stateDir, { recursive: true, force: true });
  return found;
}
