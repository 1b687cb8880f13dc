// Whether a sandbox may have a cgroup namespace of its own. Pure but for one read.
import { readFileSync } from 'node:fs';

/**
 * With `nsdelegate` (systemd mounts cgroup2 so) the kernel lets a process move only between groups below the root of
 * its cgroup namespace, and that root would be the agent leaf: tools could not enter theirs (cgroups(7)). There the
 * sandbox keeps the spawner's namespace; without a cgroup file system inside, that shows no more than a path.
 */
export function allowsCgroupNamespace(mountinfo = readFileSync('/proc/self/mountinfo', 'utf8')): boolean {
  return !mountinfo
    .split('\n')
    .map((line) => line.split(' - ')[1]?.split(' ') ?? [])
    .some(([type, , options]) => type === 'cgroup2' && options?.split(',').includes('nsdelegate') === true);
}
