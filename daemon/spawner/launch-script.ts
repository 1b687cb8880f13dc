// The two shell programs of a launch and the command line that runs them.
// Paths arrive as positional parameters, never inside the program text.

/** Descriptors of the launcher while it works. Only 0 to 4 are left when the engine's program starts. */
export const LAUNCH_FD = {
  stdin: 0,
  stdout: 1,
  /** Stage marks, messages of the launching tools and bubblewrap's JSON; the program never sees it. */
  status: 2,
  records: 3,
  session: 4,
  /** Bubblewrap's options: its argv is readable inside the sandbox, this is not. */
  args: 5,
  /** Becomes the program's descriptor 2. */
  stderr: 6,
  /** Closed by a successful exec; otherwise carries the shell's exit code. */
  exec: 7,
} as const;

/** What the `exec` descriptor says right before the program is started. */
export const EXEC_STARTS = 'start';

/** Jobs go before the daemon when the whole machine runs out of memory, but not before everything else. */
const OOM_SCORE_ADJ = 200;
const OPEN_FILES = 65536;

/**
 * As root, outside the sandbox, in its own mount namespace.
 * $1 cgroup.procs of the agent leaf or '', $2 directory of the job's tmpfs or '', $3 mount options, $4 uid, $5 gid,
 * $6 seccomp filter or '', $7… bubblewrap and the command in it. Joining comes first: memory touched before would stay
 * charged to the spawner. The shell opens cgroup.procs itself, so it must exist (a tmpfs would let it be created).
 * Joining may wait for the kernel; the empty tmpfs is made meanwhile by a child that ends outside the call.
 */
const OUTER = `
mark() { echo "@$1" >&2; }
umask 022
mark cgroup
if [ -n "$2" ]; then
  { mount -n -t tmpfs -o "$3" djinnd-job "$2" && cd "$2" && exec install -d -m 1777 -o "$4" -g "$5" tmp shm home; } &
fi
if [ -n "$1" ]; then [ -f "$1" ] || { echo "cgroup.procs: No such file or directory" >&2; exit 1; }; echo 0 >"$1" || exit 1; fi
echo ${OOM_SCORE_ADJ} >/proc/self/oom_score_adj || exit 1
ulimit -c 0 && ulimit -n ${OPEN_FILES} 2>/dev/null
mark mount
if [ -n "$2" ]; then wait $! || exit 1; fi
mark sandbox
filter=$6
shift 6
if [ -n "$filter" ]; then exec 9<"$filter"; fi
exec "$@" 8>&2
`;

/**
 * As the tenant, inside the sandbox: the last exec. The shell keeps the \`exec\` descriptor only as a close-on-exec copy
 * while it tries, so end-of-file there means that the program runs (dash, busybox; bash needs execfail to survive).
 */
const INNER = `
unset PWD OLDPWD _ SHLVL
if [ -n "$BASH_VERSION" ]; then shopt -s execfail; fi
echo ${EXEC_STARTS} >&7
trap 'code=$?; echo $code >&7' EXIT
{ exec "$@"; } 2>&6 5>&- 6>&- 7>&- 8>&- 9>&-
exit $?
`;

export interface OuterParameters {
  agentProcs: string | null;
  scratchDir: string | null;
  scratchBytes: number;
  scratchInodes: number;
  uid: number;
  gid: number;
  seccompFile: string | null;
}

/** The launcher's command line; `sandboxed` is what runs inside. Unprivileged there is no mount namespace to make. */
export function launcherArgv(
  parameters: OuterParameters,
  sandboxed: readonly string[],
  privileged: boolean,
): string[] {
  const { agentProcs, scratchDir, scratchBytes, scratchInodes, uid, gid, seccompFile } = parameters;
  const mountOptions = `size=${scratchBytes},nr_inodes=${scratchInodes},mode=0711,nosuid,nodev`;
  const shell = ['/bin/sh', '-c', OUTER, 'launch', agentProcs ?? '', scratchDir ?? '', mountOptions];
  const bwrap = ['bwrap', '--args', String(LAUNCH_FD.args), '--json-status-fd', '8'];
  if (seccompFile !== null) bwrap.push('--seccomp', '9');
  const command = [...shell, String(uid), String(gid), seccompFile ?? '', ...bwrap, '--', ...sandboxed];
  return privileged ? ['unshare', '--mount', '--propagation', 'private', '--', ...command] : command;
}

/** Drops every privilege and starts the engine's program. */
export function sandboxedArgv(
  program: readonly string[],
  account: { uid: number; gid: number } | null,
): string[] {
  const drop = ['--no-new-privs'];
  if (account !== null) {
    drop.push('--reuid', String(account.uid), '--regid', String(account.gid), '--clear-groups');
    drop.push('--bounding-set=-all', '--inh-caps=-all', '--ambient-caps=-all');
  }
  return ['setpriv', ...drop, '--', '/bin/sh', '-c', INNER, 'start', ...program];
}
