// Proves what the sandbox holds on this machine by running one and looking at it from inside.
import { randomBytes } from 'node:crypto';
import { existsSync, mkdirSync, readlinkSync, rmdirSync } from 'node:fs';
import { join } from 'node:path';
import type { Readable } from 'node:stream';
import type { ControlReport } from '../../cgroups/types.ts';
import type { Account } from './accounts.ts';
import { makeRunDirectory } from './job-directories.ts';
import type { Launch, LaunchEnd } from './launch.ts';
import type { SandboxControl } from './wire.ts';

export interface ProbeOptions {
  /** Must know the engine `PROBE_ENGINE`. */
  launch: Launch;
  stateDir: string;
  jobsRunDir: string;
  privileged: boolean;
  /** True when there is a filter for this machine. */
  hasFilter: boolean;
}

/** A shell that prints its own state: nothing that a job brings is involved. */
export const PROBE_ENGINE = {
  name: 'sandbox-probe',
  kind: 'command',
  argv: [
    '/bin/sh',
    '-c',
    `grep -E '^(Uid|Gid|Groups|CapBnd|NoNewPrivs|Seccomp):' /proc/self/status
for name in pid mnt ipc uts net; do echo "ns-$name: $(readlink /proc/self/ns/$name)"; done
echo "interfaces: $(grep -c : /proc/net/dev)"
echo "scratch: $(stat -f -c '%b %c %S' /tmp)"
unshare --user true 2>/dev/null && echo "filter: open" || echo "filter: refuses"`,
  ],
  files: [],
  dir: '/',
} as const;

const SCRATCH_BYTES = 1024 * 1024;
const SCRATCH_INODES = 64;
const TIMEOUT_MS = 20_000;
const NOBODY: Account = { user: 'nobody', uid: 65534, gid: 65534 };
const NAMESPACES = ['pid', 'mnt', 'ipc', 'uts'];

export type SandboxReport = Record<SandboxControl, ControlReport>;
type Seen = Map<string, string>;

const full: ControlReport = { level: 'full' };
const short = (level: 'partial' | 'none', reason: string, remedy: string): ControlReport => ({
  ...{ level, reason, remedy },
});

function uidReport(seen: Seen, { privileged }: ProbeOptions): ControlReport {
  if (!privileged) {
    const user = `all tenants share uid ${process.getuid?.()}`;
    return short('none', `the spawner does not run as root: ${user}`, 'run the spawner as root');
  }
  const wanted: [string, string][] = [
    ['Uid', Array(4).fill(NOBODY.uid).join(' ')],
    ['Gid', Array(4).fill(NOBODY.gid).join(' ')],
    ['Groups', ''],
    ['CapBnd', '0000000000000000'],
    ['NoNewPrivs', '1'],
  ];
  const wrong = wanted.filter(([name, value]) => seen.get(name)?.replaceAll(/\s+/g, ' ') !== value);
  if (wrong.length === 0) return full;
  const found = wrong.map(([name]) => `${name} is ${seen.get(name) ?? 'unknown'}`).join(', ');
  return short('none', `inside the sandbox ${found}`, 'start the spawner with all of root’s capabilities');
}

function namespacesReport(seen: Seen): ControlReport {
  const shared = NAMESPACES.filter((name) => {
    const inside = seen.get(`ns-${name}`);
    return inside === undefined || inside === '' || inside === readlinkSync(`/proc/self/ns/${name}`);
  });
  if (shared.length === 0) return full;
  return short(
    'none',
    `the sandbox shares the machine's ${shared.join(', ')}`,
    'allow namespaces to the spawner',
  );
}

function networkReport(seen: Seen): ControlReport {
  const isOwn = seen.get('ns-net') !== readlinkSync('/proc/self/ns/net');
  if (isOwn && seen.get('interfaces') === '1') return full;
  return short('none', 'a job without network sees the machine’s', 'allow network namespaces to the spawner');
}

function seccompReport(seen: Seen, { hasFilter }: ProbeOptions): ControlReport {
  if (!hasFilter) return short('none', `no filter for ${process.arch}`, 'use an x64 or arm64 machine');
  if (seen.get('Seccomp') === '2' && seen.get('filter') === 'refuses') return full;
  return short('none', 'the filter is not in force', 'use a kernel with CONFIG_SECCOMP_FILTER');
}

function diskReport(seen: Seen, { privileged }: ProbeOptions): ControlReport {
  const [blocks = 0, inodes = 0, blockBytes = 0] = (seen.get('scratch') ?? '').split(' ').map(Number);
  const remedy = 'put the workspaces on a file system with a quota of its own';
  if (blocks === 0 || blocks * blockBytes > SCRATCH_BYTES) {
    return short('none', 'neither the workspace nor /tmp is limited', remedy);
  }
  if (privileged && inodes <= SCRATCH_INODES) {
    return short(
      'partial',
      'the size of a workspace is not limited; /tmp, /dev/shm and the home are',
      remedy,
    );
  }
  return short('partial', 'only the bytes in /tmp, /dev/shm and the home are limited', remedy);
}

function nothingHolds(end: LaunchEnd): SandboxReport {
  const why =
    end.kind === 'spawn_failed' ? `${end.stage}: ${end.errno}: ${end.message}` : `ended with ${end.code}`;
  const report = short(
    'none',
    `no sandbox can be started (${why})`,
    'run the spawner as root, with bubblewrap installed',
  );
  return { uid: report, namespaces: report, network: report, seccomp: report, disk: report };
}

async function textOf(stream: Readable): Promise<string> {
  const chunks: Buffer[] = [];
  for await (const chunk of stream) chunks.push(chunk as Buffer);
  return Buffer.concat(chunks).toString('utf8');
}

async function look(options: ProbeOptions, probeDir: string): Promise<{ text: string; end: LaunchEnd }> {
  const gateway = { uid: process.getuid?.() ?? 0, gid: process.getgid?.() ?? 0 };
  const { runDir } = makeRunDirectory(options.jobsRunDir, `probe-${randomBytes(6).toString('hex')}`, gateway);
  const launched = options.launch({
    ...{
      jobId: 'job_probe',
      attempt: 1,
      engine: { ...PROBE_ENGINE, argv: [...PROBE_ENGINE.argv], files: [] },
    },
    account: options.privileged ? NOBODY : { user: '', ...gateway },
    ...{ call: null, runDir, workspaceDir: probeDir, sessionFile: '/dev/null', network: 'none' },
    ...{ scratchBytes: SCRATCH_BYTES, scratchInodes: SCRATCH_INODES },
  });
  launched.stdin.end();
  launched.stderr.resume();
  const deadline = setTimeout(() => launched.killAll(), TIMEOUT_MS);
  try {
    const text = await textOf(launched.stdout).catch(() => '');
    return { text, end: await launched.ended };
  } finally {
    clearTimeout(deadline);
    await launched.close();
  }
}

/** Runs the probe sandbox and reports each control. Never throws for what a machine cannot do. */
export async function probeSandbox(options: ProbeOptions): Promise<SandboxReport> {
  const probeDir = join(options.stateDir, 'probe');
  if (!existsSync(probeDir)) mkdirSync(probeDir, { mode: 0o755 });
  const { text, end } = await look(options, probeDir);
  rmdirSync(probeDir);
  if (end.kind !== 'exited' || end.code !== 0) return nothingHolds(end);
  const seen: Seen = new Map(
    text.split('\n').map((line) => {
      const at = line.indexOf(':');
      return [line.slice(0, at), line.slice(at + 1).trim()];
    }),
  );
  return {
    uid: uidReport(seen, options),
    namespaces: namespacesReport(seen),
    network: networkReport(seen),
    seccomp: seccompReport(seen, options),
    disk: diskReport(seen, options),
  };
}
