// Bubblewrap's options for one job: what the program sees of the machine. Pure; nothing of a tenant's is opened here.
import type { Account } from './accounts.ts';
import type { EngineFiles } from './runtime-files.ts';
import type { SystemView } from './system-view.ts';

/** Where things are inside the sandbox. */
export const INSIDE = {
  workspace: '/workspace',
  home: '/home/agent',
  gateway: '/run/djinn/gw',
  toolsProcs: '/run/djinn/cgroup/tools.procs',
  toolsEvents: '/run/djinn/cgroup/tools.events',
  node: '/opt/djinn/node',
  worker: '/opt/djinn/djinn.cjs',
  engine: '/opt/djinn/engine',
} as const;

/** The whole environment of a program: an allow-list with values that depend on no tenant. */
export const SANDBOX_ENV: Readonly<Record<string, string>> = {
  PATH: '/usr/local/bin:/usr/bin:/bin',
  HOME: INSIDE.home,
  LANG: 'C.UTF-8',
  TMPDIR: '/tmp',
  USER: 'agent',
  LOGNAME: 'agent',
  SHELL: '/bin/sh',
  TERM: 'dumb',
};

export interface SandboxPlan {
  account: Account;
  /** False: one user for all, in a user namespace. */
  privileged: boolean;
  system: SystemView;
  /** The account's /etc. */
  etcDir: string;
  engine: EngineFiles;
  runDir: string;
  workspaceDir: string;
  /** The program may not change the workspace. */
  readOnly: boolean;
  network: 'none' | 'host';
  /** Bound in when the call has cgroups. */
  tools: { procs: string; events: string } | null;
  /** Off where the kernel would then refuse to move tools between the call's leaves (`nsdelegate`). */
  cgroupNamespace: boolean;
  scratchBytes: number;
  /** Set where no cgroup can end the job after the spawner's death. */
  dieWithParent: boolean;
}

function namespaces(plan: SandboxPlan): string[] {
  const { account } = plan;
  const options = ['--unshare-pid', '--unshare-ipc', '--unshare-uts', '--hostname', 'djinn', '--new-session'];
  if (plan.cgroupNamespace) options.push('--unshare-cgroup');
  if (plan.network === 'none') options.push('--unshare-net');
  if (plan.dieWithParent) options.push('--die-with-parent');
  if (!plan.privileged) {
    options.push('--unshare-user', '--uid', String(account.uid), '--gid', String(account.gid));
  }
  return options;
}

function environment(): string[] {
  return ['--clearenv', ...Object.entries(SANDBOX_ENV).flatMap(([name, value]) => ['--setenv', name, value])];
}

/** Parents of mount points; bubblewrap would make them root's alone. */
const PARENTS = ['/home', '/opt', '/opt/djinn', '/run', '/run/djinn', '/run/djinn/cgroup', '/var'];

function system(plan: SandboxPlan): string[] {
  const { system: view } = plan;
  const options = PARENTS.flatMap((path) => ['--dir', path]);
  for (const [target, link] of view.symlinks) options.push('--symlink', target, link);
  for (const path of view.directories) options.push('--ro-bind', path, path);
  options.push('--ro-bind', plan.etcDir, '/etc');
  for (const path of view.etcDirectories) options.push('--ro-bind', path, path);
  if (plan.network === 'host' && view.resolver !== null)
    options.push('--ro-bind', view.resolver, view.resolver);
  return [...options, '--proc', '/proc', '--dev', '/dev', '--symlink', '../tmp', '/var/tmp'];
}

function scratch(plan: SandboxPlan): string[] {
  const places = [
    ['tmp', '/tmp', '1777'],
    ['shm', '/dev/shm', '1777'],
    ['home', INSIDE.home, '0700'],
  ] as const;
  const size = String(plan.scratchBytes);
  const mounts = places.flatMap(([name, inside, mode]) =>
    plan.privileged
      ? ['--bind', `${plan.runDir}/fs/${name}`, inside]
      : ['--perms', mode, '--size', size, '--tmpfs', inside],
  );
  return [...mounts, '--chmod', '0700', INSIDE.home];
}

function work(plan: SandboxPlan): string[] {
  const { engine, tools } = plan;
  const options = [
    plan.readOnly ? '--ro-bind' : '--bind',
    plan.workspaceDir,
    INSIDE.workspace,
    '--ro-bind',
    `${plan.runDir}/gw`,
    INSIDE.gateway,
  ];
  options.push('--ro-bind', engine.node, INSIDE.node);
  if (engine.worker !== null) options.push('--ro-bind', engine.worker, INSIDE.worker);
  if (engine.filesDir !== null) options.push('--ro-bind', engine.filesDir, INSIDE.engine);
  if (tools !== null) {
    options.push('--bind', tools.procs, INSIDE.toolsProcs, '--ro-bind', tools.events, INSIDE.toolsEvents);
  }
  return options;
}

/** The options in order, for `--args`. The root is made read-only last, when every mount point exists. */
export function sandboxArgs(plan: SandboxPlan): string[] {
  return [
    ...namespaces(plan),
    ...environment(),
    ...system(plan),
    ...scratch(plan),
    ...work(plan),
    '--remount-ro',
    '/',
    '--chdir',
    INSIDE.workspace,
  ];
}
