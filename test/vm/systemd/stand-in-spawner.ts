// Does under djinnd-spawner.service what the spawner does with its tree at start, starts one call with sleepers
// that try to outlive it, and writes down what it found.
import { execFileSync, spawn } from 'node:child_process';
import { existsSync, readFileSync, renameSync, writeFileSync } from 'node:fs';
import { createCall, createSlice, openTree, probe, sweepTree } from '../../../cgroups/index.ts';

const [, , reportPath = ''] = process.argv;

/** The steps of a sandbox that the unit's directives could forbid. */
function trySandbox(): string {
  const inner = [
    'setpriv',
    '--reuid=65534',
    '--regid=65534',
    '--clear-groups',
    '--no-new-privs',
    '--bounding-set=-all',
  ];
  const view = [
    '--ro-bind',
    '/usr',
    '/usr',
    '--symlink',
    'usr/lib',
    '/lib',
    '--symlink',
    'usr/lib64',
    '/lib64',
    '--symlink',
    'usr/bin',
    '/bin',
  ];
  const args = [
    '--unshare-pid',
    '--unshare-ipc',
    '--unshare-uts',
    '--unshare-cgroup',
    '--unshare-net',
    ...view,
  ];
  args.push(
    '--proc',
    '/proc',
    '--dev',
    '/dev',
    '--tmpfs',
    '/tmp',
    '--clearenv',
    '--',
    ...inner,
    'cat',
    '/proc/self/status',
  );
  return execFileSync('bwrap', args, { encoding: 'utf8' });
}

const found = await probe();
const tree = await openTree({ root: found.root ?? '', controllers: ['memory', 'pids', 'cpu', 'io'] });
const swept = await sweepTree(tree);
const report = await probe({ delegated: tree.path });
await createSlice(tree, 'tenant', {});
const limits = { memoryBytes: 2 ** 28, pids: 200, cpuPercent: 100 };
const call = await createCall(tree, 'tenant', 'job_1', limits, { uid: 65534, gid: 65534 });
const script =
  'echo 0 > "$1"; for n in 1 2 3 4 5; do (setsid sleep 600 &) ; done; trap "" TERM HUP; sleep 600';
spawn('bash', ['-c', script, 'bash', call.agentProcs], { stdio: 'ignore' });
/** The six that stay; a shell that is about to end does not count. */
const sleepers = (): number[] => {
  const pids = readFileSync(call.agentProcs, 'utf8').trim().split('\n').map(Number);
  return pids.filter(
    (pid) => pid > 0 && existsSync(`/proc/${pid}`) && readFileSync(`/proc/${pid}/comm`, 'utf8') === 'sleep\n',
  );
};
while (sleepers().length < 6) await new Promise((resolve) => setTimeout(resolve, 50));

const facts = {
  pid: process.pid,
  path: tree.path,
  oomScoreAdj: readFileSync('/proc/self/oom_score_adj', 'utf8').trim(),
  foundMemory: found.controls.memory.level,
  controls: report.controls,
  swept,
  sleepers: sleepers(),
  sandbox: trySandbox(),
};
writeFileSync(`${reportPath}.new`, JSON.stringify(facts));
renameSync(`${reportPath}.new`, reportPath);
setInterval(() => {}, 60_000);
