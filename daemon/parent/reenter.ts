// Replaces the process by itself inside a delegated scope (where systemd runs) and a private mount namespace, in which
// the installation is bound read-only at a place that the daemon's user can reach. The pid stays the same.
import { relative } from 'node:path';
import type { Config, Env } from '../config.ts';
import { places } from './directories.ts';
import { delegatedScope, replaceProcess, systemdManagesCgroups } from './replace.ts';

/** Runs in the new namespace: $1 the installation, $2 where it is bound, $3 a user that must be able to read it,
 *  $4 where a readable copy may be made, $5 Node below the installation, the rest the arguments of djinnd. */
const BIND_AND_RUN = `set -e
clone=$1 app=$2 user=$3 copy=$4 node=$5
shift 5
readable() { setpriv --reuid="$user" --regid="$user" --clear-groups -- sh -c 'test -r "$1/daemon/main.ts" && test -r "$1/node_modules/pg/package.json" && test -x "$2"' sh "$app" "$app/$node"; }
bind() { mount --rbind -- "$1" "$app"; mount -o remount,bind,ro,nosuid,nodev "$app"; }
bind "$clone"
if ! readable; then
  umount -l "$app"
  echo "djinnd: $clone is not readable for other users: running from a copy in $copy" >&2
  rm -rf "$copy"
  mkdir -m 755 "$copy"
  tar -C "$clone" --exclude=./.git --mode=u+rwX,go+rX,go-w -cf - . | tar -C "$copy" --no-same-owner -xpf -
  bind "$copy"
fi
exec "$app/$node" "$app/daemon/main.ts" "$@"`;

export interface Reentry {
  config: Config;
  /** The installation that this process runs from. */
  appRoot: string;
  /** Its place in the namespace: an empty directory. */
  appDir: string;
  /** A user that must be able to read it. */
  user: string;
  args: string[];
  env: Env;
}

/** The scope's name; one per instance, so that what a killed parent left behind is found. */
export function scopeName(instance: string): string {
  return instance === '' ? 'djinnd.scope' : `djinnd-${instance}.scope`;
}

/** Does not return. Throws when the programs that it needs are missing. */
export async function reenter(entry: Reentry): Promise<never> {
  const node = relative(entry.appRoot, process.execPath);
  if (node.startsWith('..'))
    throw new Error(`run this through ${entry.appRoot}/bin/djinnd, which uses the packaged Node`);
  const inner = [
    'unshare',
    '--mount',
    '--propagation=slave',
    '--',
    'sh',
    '-c',
    BIND_AND_RUN,
    'djinnd-start',
    entry.appRoot,
    entry.appDir,
    entry.user,
    places(entry.config).appCopy,
    node,
    ...entry.args,
  ];
  const scope = systemdManagesCgroups() ? await delegatedScope(scopeName(entry.config.instance)) : [];
  return replaceProcess([...scope, ...inner], entry.env);
}
