// Which parts of the machine's file system every sandbox may read: an explicit list, looked up once.
import { lstatSync, readlinkSync } from 'node:fs';

/** Top-level directories: links on a merged-usr system, real directories elsewhere. */
const SYSTEM_DIRECTORIES = ['/usr', '/bin', '/sbin', '/lib', '/lib32', '/lib64', '/libx32'];

/** Needed by libraries and common tools; nothing here names a user or holds a key. */
const ETC = [
  '/etc/alternatives',
  '/etc/ssl/certs',
  '/etc/ssl/openssl.cnf',
  '/etc/pki/tls/certs',
  '/etc/pki/ca-trust/extracted',
  '/etc/ld.so.cache',
  '/etc/localtime',
  '/etc/os-release',
  '/etc/mime.types',
  '/etc/services',
  '/etc/protocols',
];

/** With the machine's network the machine's name lookup is needed too. */
const HOST_LOOKUP = ['/etc/resolv.conf'];

export interface SystemView {
  /** `[target, link]` pairs. */
  symlinks: [string, string][];
  readOnly: string[];
  /** Files of the run directory's `etc/` that stand in for the machine's. */
  stubs: string[];
  hostLookup: string[];
}

function kindOf(path: string): 'missing' | 'link' | 'present' {
  try {
    return lstatSync(path).isSymbolicLink() ? 'link' : 'present';
  } catch {
    return 'missing'; // not on this machine: nothing to show
  }
}

/** Looks the list up on this machine. */
export function readSystemView(): SystemView {
  const view: SystemView = { symlinks: [], readOnly: [], stubs: [], hostLookup: [] };
  for (const path of [...SYSTEM_DIRECTORIES, ...ETC]) {
    const kind = kindOf(path);
    if (kind === 'link') view.symlinks.push([readlinkSync(path), path]);
    if (kind === 'present') view.readOnly.push(path);
  }
  view.stubs = ['passwd', 'group', 'hosts', 'nsswitch.conf'];
  view.hostLookup = HOST_LOOKUP.filter((path) => kindOf(path) !== 'missing');
  return view;
}

/** The stub files' contents for one account: only `root`, the tenant as `agent`, and `nobody` exist. */
export function stubFiles(uid: number, gid: number): Record<string, string> {
  const ids = uid === 0 ? [] : [`agent:x:${uid}:${gid}::/home/agent:/bin/sh`];
  return {
    passwd: `${['root:x:0:0::/:/usr/sbin/nologin', ...ids, 'nobody:x:65534:65534::/:/usr/sbin/nologin'].join('\n')}\n`,
    group: `root:x:0:\nagent:x:${gid}:\nnogroup:x:65534:\n`,
    hosts: '127.0.0.1 localhost djinn\n::1 localhost\n',
    'nsswitch.conf': 'passwd: files\ngroup: files\nhosts: files dns\nservices: files\nprotocols: files\n',
  };
}
