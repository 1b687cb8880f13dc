// Makes the embedded Postgres's cluster, and starts its programs as its own user. Never touches a running server.
import { type ChildProcess, spawn } from 'node:child_process';
import { join } from 'node:path';

/** Name of the superuser that the cluster is made with. */
export const EMBEDDED_SUPERUSER = 'postgres';

export interface Account {
  uid: number;
  gid: number;
}

const MAKE_CLUSTER = `set -e
umask 077
home=$1 bin=$2 sockets=$3
rm -f "$sockets"/.s.PGSQL.*
if [ -e "$home/data/PG_VERSION" ]; then rm -f "$home/data/postmaster.pid"; cat "$home/data/PG_VERSION"; exit 0; fi
rm -rf "$home/data.new"
"$bin/initdb" -D "$home/data.new" --username=${EMBEDDED_SUPERUSER} --auth=reject --encoding=UTF8 --no-locale --no-instructions >&2
mv -T "$home/data.new" "$home/data"
cat "$home/data/PG_VERSION"`;

/**
 * Makes the cluster beside its final place and renames it, so that a half-made one is never started. Nothing may run on
 * it: a dead server's pid and socket files are removed, for its number may be a zombie's or another's by now.
 */
export async function makeCluster(
  { homeDir, socketDir }: { homeDir: string; socketDir: string },
  account: Account | null,
  native: string,
  env: Record<string, string>,
): Promise<void> {
  const child = spawnAs(
    account,
    ['sh', '-c', MAKE_CLUSTER, 'make-cluster', homeDir, join(native, 'bin'), socketDir],
    env,
  );
  let version = '';
  child.stdout?.setEncoding('utf8').on('data', (text: string) => {
    version += text;
  });
  let errors = '';
  child.stderr?.setEncoding('utf8').on('data', (text: string) => {
    errors = (errors + text).slice(-4000);
  });
  const code = await new Promise<number | null>((resolve, reject) => {
    child.once('error', reject);
    child.once('close', resolve);
  });
  if (code !== 0)
    throw new Error(`the embedded Postgres could not make its cluster in ${homeDir}: ${errors.trim()}`);
  if (version.trim() !== '18') {
    throw new Error(
      `${homeDir}/data was made by Postgres ${version.trim()}, this is 18: export it with the old version, or move it away`,
    );
  }
}

/**
 * In a session of its own, so that a terminal's INT reaches only the parent, which stops things in order; and with a
 * fast shutdown as parent-death signal, so that a killed parent leaves no server.
 */
export function spawnAs(
  account: Account | null,
  command: string[],
  env: Record<string, string>,
): ChildProcess {
  const identity =
    account === null
      ? []
      : [
          `--reuid=${account.uid}`,
          `--regid=${account.gid}`,
          '--clear-groups',
          '--inh-caps=-all',
          '--bounding-set=-all',
        ];
  return spawn('setpriv', ['--pdeathsig=INT', '--no-new-privs', ...identity, '--', ...command], {
    env,
    cwd: '/',
    detached: true,
    stdio: ['ignore', 'pipe', 'pipe'],
  });
}
