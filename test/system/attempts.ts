// Attempts to get out of a sandbox, each a line of Perl with the errors that are right answers. For x64: system calls have
// numbers here. The numbers of processes come from the test.
import { readFileSync } from 'node:fs';
import { join } from 'node:path';

export type Attempt = readonly [name: string, perl: string, expected: RegExp];

const prelude = readFileSync(join(import.meta.dirname, 'attempts.pl'), 'utf8');

/** One Perl program that makes them all. */
export const attemptScript = (attempts: readonly Attempt[]): string =>
  `${prelude}\n${attempts.map(([name, perl]) => `attempt('${name}', sub { ${perl} });`).join('\n')}\n`;

/** Attempts that ended otherwise than they should; all of them when the program broke off. */
export function wrongOutcomes(attempts: readonly Attempt[], output: string): string[] {
  const lines = output.split('\n');
  return attempts.flatMap(([name, , expected]) => {
    const line = lines.find((one) => one.startsWith(`${name} `)) ?? `${name} was not tried`;
    return expected.test(line.slice(name.length + 1)) ? [] : [line];
  });
}

const DENIED = /^(EPERM|EACCES|EROFS)$/;
const EPERM = /^EPERM$/;
const EACCES = /^EACCES$/;
const ABSENT = /^ENOENT$/;

export const SYSTEM_CALLS: readonly Attempt[] = [
  ['mount', `call(165, 'none', '/tmp', 'tmpfs', 0, '')`, EPERM],
  ['mount by binding', `call(165, '/workspace', '/opt', '', 4096, '')`, EPERM],
  ['mount cgroup2', `mkdir '/tmp/c'; call(165, 'none', '/tmp/c', 'cgroup2', 0, '')`, EPERM],
  ['mount the new way', `call(430, 'tmpfs', 0)`, EPERM],
  ['unmount', `call(166, '/proc', 2)`, EPERM],
  ['unshare user', 'call(272, 0x10000000)', EPERM],
  ['unshare mounts', 'call(272, 0x00020000)', EPERM],
  ['unshare cgroup', 'call(272, 0x02000000)', EPERM],
  ['clone with a user namespace', 'call(56, 0x10000011, 0, 0, 0, 0)', EPERM],
  ['clone3', `call(435, "\\0" x 88, 88)`, /^ENOSYS$/],
  ['enter a namespace', `my $f; sysopen($f, '/proc/self/ns/mnt', 0) and call(308, fileno($f), 0)`, EPERM],
  ['another root', `chroot('/tmp')`, EPERM],
  ['pivot the root', `call(155, '/tmp', '/tmp')`, EPERM],
  ['make a device', `call(133, '/tmp/disk', 060600, 0xfe00)`, EPERM],
  ['set uid 0', 'call(105, 0)', EPERM],
  ['set gid 0', 'call(106, 0)', EPERM],
  ['set groups', 'call(116, 1, pack("L", 0))', EPERM],
  ['take capabilities', 'call(126, pack("LL", 0x20080522, 0), pack("L6", (0xffffffff) x 6))', EPERM],
  ['give a file to root', `opens('/workspace/own', O_CREAT|O_RDWR); chown(0, 0, '/workspace/own')`, EPERM],
  [
    'give a file capabilities',
    `call(188, '/workspace/own', 'security.capability', pack('L5', 0x02000001, 0x80, 0, 0, 0), 20, 0)`,
    EPERM,
  ],
  ['higher priority', 'call(141, 0, 0, -5)', /^EACCES$/],
  ['real-time scheduling', 'call(144, 0, 1, pack("l", 1))', EPERM],
  ['more descriptors', 'call(160, 7, pack("QQ", 1 << 30, 1 << 30))', EPERM],
  ['spare from the out-of-memory killer', `writes('/proc/self/oom_score_adj', '-1000')`, EACCES],
  ['keyring', 'call(250, 0, -3, 0, 0, 0)', EPERM],
  ['add a key', `call(248, 'user', 'k', 'v', 1, -4)`, EPERM],
  ['request a key', `call(249, 'user', 'k', 0, -4)`, EPERM],
  ['bpf', 'call(321, 0, 0, 0)', EPERM],
  ['perf', `call(298, "\\0" x 128, 0, -1, -1, 0)`, EPERM],
  ['userfaultfd', 'call(323, 0)', EPERM],
  ['io_uring', `call(425, 1, "\\0" x 120)`, EPERM],
  ['load a module', `call(175, '', 0, '')`, EPERM],
  ['load a kernel', 'call(246, 0, 0, 0, 0)', EPERM],
  ['open by handle', `call(304, -100, "\\0" x 24, 0)`, EPERM],
  ['watch a file system', 'call(300, 0, 0)', EPERM],
  ['switch off ctrl-alt-del', 'call(169, 0xfee1dead, 672274793, 0)', EPERM],
  ['swap', `call(167, '/tmp/none', 0)`, EPERM],
  ['name the host', `call(170, 'x', 1)`, EPERM],
  ['set the clock', 'call(164, 0, 0)', EPERM],
  ['account', `call(163, '/tmp/none')`, EPERM],
  ['kernel log', 'call(103, 2, 0, 0)', EPERM],
  ['32-bit system call numbers', 'call(0x40000000 + 39)', /^ENOSYS$/],
];

/** What the tools of a program find out about the program and the sandbox's init. */
export const OF_PROCESS = (name: string, pid: number): readonly Attempt[] => [
  ...['environ', 'mem', 'auxv', 'maps', 'fd/3', 'fd/4', 'io', 'stack', 'pagemap'].map(
    (file): Attempt => [`${name}: ${file}`, `opens('/proc/${pid}/${file}')`, EACCES],
  ),
  [`${name}: write its memory`, `opens('/proc/${pid}/mem', O_RDWR)`, EACCES],
  [`${name}: descriptors`, `lists('/proc/${pid}/fd')`, EACCES],
  [`${name}: root`, `lists('/proc/${pid}/root/')`, EACCES],
  [`${name}: directory`, `lists('/proc/${pid}/cwd/')`, EACCES],
  [`${name}: attach`, `call(101, 16, ${pid}, 0, 0)`, EPERM],
  [`${name}: seize`, `call(101, 0x4206, ${pid}, 0, 0)`, EPERM],
  [
    `${name}: read its memory`,
    `my $b = ' ' x 8; call(310, ${pid}, pack('PQ', $b, 8), 1, pack('QQ', 0x400000, 8), 1, 0)`,
    EPERM,
  ],
  [
    `${name}: take its descriptor`,
    `my $p = syscall(434, ${pid}, 0); $p >= 0 or die 'no pidfd'; call(438, $p, 3, 0)`,
    EPERM,
  ],
];

export const MACHINE_FILES: readonly Attempt[] = [
  ['read node', `opens('/opt/djinn/node')`, EACCES],
  ...['/opt/djinn/node', '/opt/djinn/djinn.cjs', '/usr/bin/env', '/etc/passwd'].flatMap((path): Attempt[] => [
    [`write ${path}`, `opens('${path}', O_WRONLY)`, DENIED],
    [`cut ${path}`, `truncate('${path}', 0)`, DENIED],
    [`remove ${path}`, `unlink('${path}')`, /^(EROFS|EACCES|EBUSY)$/],
    [`move ${path}`, `rename('${path}', '/workspace/moved')`, /^(EROFS|EXDEV|EBUSY|EACCES)$/],
    [`change ${path}`, `chmod(0777, '${path}')`, DENIED],
    [`link ${path}`, `link('${path}', '/workspace/linked')`, /^(EXDEV|EPERM)$/],
  ]),
  ...[
    '/',
    '/etc',
    '/usr',
    '/opt',
    '/opt/djinn',
    '/run',
    '/run/djinn/gw',
    '/run/djinn/cgroup',
    '/home',
    '/var',
  ].map((dir): Attempt => [`make a file in ${dir}`, `opens('${dir}/made', O_CREAT|O_WRONLY)`, DENIED]),
  ...['core_pattern', 'modprobe', 'hostname'].map(
    (name): Attempt => [
      `set ${name}`,
      `opens('/proc/sys/kernel/${name}', O_WRONLY)`,
      /^(EACCES|EROFS|ENOENT)$/,
    ],
  ),
  ...[
    '/proc/kcore',
    '/proc/kmsg',
    '/proc/kallsyms-none',
    '/proc/sysrq-trigger',
    '/dev/mem',
    '/dev/kmsg',
    '/dev/fuse',
  ].map((path): Attempt => [`open ${path}`, `opens('${path}', O_RDWR)`, /^(EACCES|ENOENT|EPERM|EROFS)$/]),
  ...[
    '/sys',
    '/root',
    '/boot',
    '/srv',
    '/mnt',
    '/var/lib',
    '/var/log',
    '/etc/shadow',
    '/etc/ssh',
    '/dev/log',
  ].map((path): Attempt => [`find ${path}`, `lstat('${path}')`, ABSENT]),
];

/** The cgroup files that a call is given, and those that it is not. `strangers` are numbers of the machine's processes. */
export const CGROUPS = (strangers: readonly number[]): readonly Attempt[] => [
  ['join the root group', `writes('/sys/fs/cgroup/cgroup.procs', $$)`, ABSENT],
  ['make a group', `mkdir('/run/djinn/cgroup/mine')`, DENIED],
  ['write the events', `writes('/run/djinn/cgroup/tools.events', 'oom 0')`, /^(EACCES|EROFS|ENOENT)$/],
  ['cut the events', `truncate('/run/djinn/cgroup/tools.events', 0)`, /^(EACCES|EROFS|EINVAL|ENOENT)$/],
  [
    'reach the parent',
    `opens('/run/djinn/cgroup/../cgroup/tools.procs/../memory.max')`,
    /^(ENOTDIR|ENOENT)$/,
  ],
  ...strangers.map(
    (pid): Attempt => [
      `take process ${pid}`,
      `writes('/run/djinn/cgroup/tools.procs', ${pid})`,
      /^(ESRCH|ENOENT)$/,
    ],
  ),
];

/** What another tenant has at this moment, by every name that could be shared. */
export const OTHER_TENANT = (other: {
  pids: readonly number[];
  key: number;
  name: string;
}): readonly Attempt[] => [
  ...other.pids.flatMap((pid): Attempt[] => [
    [`signal ${pid}`, `kill(9, ${pid})`, /^ESRCH$/],
    [`see ${pid}`, `lstat('/proc/${pid}')`, ABSENT],
    [`trace ${pid}`, `call(101, 16, ${pid}, 0, 0)`, /^ESRCH$/],
    [`prioritise ${pid}`, `call(141, 0, ${pid}, 19)`, /^ESRCH$/],
  ]),
  ...['/tmp', '/dev/shm', '/home/agent', '/workspace'].map(
    (dir): Attempt => [`find its file in ${dir}`, `lstat('${dir}/${other.name}')`, ABSENT],
  ),
  ['shared memory', `shmget(${other.key}, 1, 0)`, ABSENT],
  ['semaphores', `semget(${other.key}, 1, 0)`, ABSENT],
  ['messages', `msgget(${other.key}, 0)`, ABSENT],
  ['message queue', `call(240, '${other.name}', 0, 0, 0)`, ABSENT],
  ['abstract socket', `connects("\\0${other.name}")`, /^ECONNREFUSED$/],
  ['its lock', `my $f; sysopen($f, '/tmp/${other.name}', O_RDONLY) and flock($f, LOCK_SH|LOCK_NB)`, ABSENT],
];
