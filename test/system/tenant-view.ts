// What root sees of processes and files on this machine: a tenant's processes, their groups, who listens, what changed.
import { type BigIntStats, lstatSync, readdirSync, readFileSync, readlinkSync } from 'node:fs';
import { join } from 'node:path';

function textOf(path: string): string {
  try {
    return readFileSync(path, 'utf8');
  } catch {
    return ''; // the process ended
  }
}

/** Pids of a user's living processes, in order; with `command`, those of that name. */
export function processesOf(uid: number, command?: string): number[] {
  const pids = readdirSync('/proc').filter((name) => /^\d+$/.test(name));
  const mine = pids.filter((pid) => {
    const status = textOf(`/proc/${pid}/status`);
    return new RegExp(`^Uid:\\t${uid}\\t`, 'm').test(status) && !/^State:\tZ/m.test(status);
  });
  const named =
    command === undefined ? mine : mine.filter((pid) => textOf(`/proc/${pid}/comm`).trim() === command);
  return named.map(Number).sort((a, b) => a - b);
}

/** The cgroup2 paths of a user's processes. */
export function groupsOf(uid: number): string[] {
  const lines = processesOf(uid).flatMap((pid) => textOf(`/proc/${pid}/cgroup`).split('\n'));
  return lines.filter((line) => line.startsWith('0::') && line !== '0::/').map((line) => line.slice(3));
}

/** Whether a process listens on a port of IPv4's loopback. */
export function listensOn(pid: number, port: number): boolean {
  const address = `0100007F:${port.toString(16).toUpperCase().padStart(4, '0')}`;
  const listeners = textOf(`/proc/${pid}/net/tcp`)
    .split('\n')
    .map((line) => line.trim().split(/\s+/))
    .filter((fields) => fields[1] === address && fields[3] === '0A');
  const inodes = new Set(listeners.map((fields) => `socket:[${fields[9]}]`));
  return readdirSync(`/proc/${pid}/fd`).some((fd) => inodes.has(linkOf(`/proc/${pid}/fd/${fd}`)));
}

function linkOf(path: string): string {
  try {
    return readlinkSync(path);
  } catch {
    return ''; // closed meanwhile
  }
}

const describe = (path: string, stat: BigIntStats): string =>
  `${path} ${stat.uid}:${stat.gid} ${stat.mode.toString(8)} ${stat.ino} ${stat.nlink} ${stat.size} ${stat.mtimeNs} ${stat.ctimeNs}`;

/** One line for each file below a directory, itself included: any change to it changes its line. */
export function stateOf(path: string): string[] {
  const stat = lstatSync(path, { bigint: true });
  const below = stat.isDirectory()
    ? readdirSync(path)
        .sort()
        .flatMap((name) => stateOf(join(path, name)))
    : [];
  return [describe(path, stat), ...below];
}
