// Which parts of the machine's file system every sandbox may read: an explicit list, looked up once.
import { lstatSync, readlinkSync } from 'node:fs';
import { basename } from 'node:path';
import type { Account } from './accounts.ts';
import { type KeptEntry, keepFiles } from './kept-files.ts';

/** Top-level directories: links on a merged-usr system, real directories elsewhere. */
const SYSTEM_DIRECTORIES = ['/usr', '/bin', '/sbin', '/lib', '/lib32', '/lib64', '/libx32'];

/** Needed by libraries and common tools; nothing here names a user or holds a key. Shown as they are. */
const ETC_DIRECTORIES = [
  '/etc/alternatives',
  '/etc/ssl/certs',
  '/etc/pki/tls/certs',
  '/etc/pki/ca-trust/extracted',
];
/** Copied when the spawner starts: each mount of its own costs a launch 0.1 ms. */
const ETC_FILES = [
  '/etc/ssl/openssl.cnf',
  '/etc/ld.so.cache',
  '/etc/localtime',
  '/etc/os-release',
  '/etc/mime.types',
  '/etc/services',
  '/etc/protocols',
];
/** With the machine's network the machine's name lookup is needed too. */
const RESOLVER = '/etc/resolv.conf';

export interface SystemView {
  /** `[target, link]` pairs at the top. */
  symlinks: [string, string][];
  /** Directories bound as they are, in order. */
  directories: string[];
  /** Directories below /etc bound as they are. */
  etcDirectories: string[];
  etcFiles: string[];
  /** Null where the machine has none. */
  resolver: string | null;
}

function kindOf(path: string): 'missing' | 'link' | 'present' {
  try {
    return lstatSync(path).isSymbolicLink() ? 'link' : 'present';
  } catch {
    return 'missing'; // not on this machine: nothing to show
  }
}

/** Looks the lists up on this machine. */
export function readSystemView(): SystemView {
  const links = SYSTEM_DIRECTORIES.filter((path) => kindOf(path) === 'link');
  return {
    symlinks: links.map((path) => [readlinkSync(path), path]),
    directories: SYSTEM_DIRECTORIES.filter((path) => kindOf(path) === 'present'),
    etcDirectories: ETC_DIRECTORIES.filter((path) => kindOf(path) === 'present'),
    etcFiles: ETC_FILES.filter((path) => kindOf(path) !== 'missing'),
    resolver: kindOf(RESOLVER) === 'missing' ? null : RESOLVER,
  };
}

/** Files that stand in for the machine's: only `root`, the tenant as `agent`, and `nobody` exist. */
function standIns({ uid, gid }: Account): Record<string, string> {
  const agent = uid === 0 ? [] : [`agent:x:${uid}:${gid}::/home/agent:/bin/sh`];
  const users = ['root:x:0:0::/:/usr/sbin/nologin', ...agent, 'nobody:x:65534:65534::/:/usr/sbin/nologin'];
  return {
    passwd: `${users.join('\n')}\n`,
    group: `root:x:0:\nagent:x:${gid}:\nnogroup:x:65534:\n`,
    hosts: '127.0.0.1 localhost djinn\n::1 localhost\n',
    'nsswitch.conf': 'passwd: files\ngroup: files\nhosts: files dns\nservices: files\nprotocols: files\n',
    'resolv.conf': '',
  };
}

function makeEtc(dir: string, view: SystemView, account: Account): string {
  const inEtc = (path: string) => path.slice('/etc/'.length);
  const mountPoints = view.etcDirectories.map(inEtc);
  const nested = [...mountPoints, ...view.etcFiles.map(inEtc)].filter((path) => path.includes('/'));
  const parents = nested.flatMap((path) => {
    const parts = path.split('/').slice(0, -1);
    return parts.map((_, index) => parts.slice(0, index + 1).join('/'));
  });
  const directories = [...new Set([...parents, ...mountPoints])].sort();
  const files = view.etcFiles.map(
    (path): KeptEntry =>
      kindOf(path) === 'link'
        ? { name: basename(path), link: readlinkSync(path) }
        : { name: inEtc(path), mode: 0o644, from: path },
  );
  const texts = Object.entries(standIns(account)).map(
    ([name, text]): KeptEntry => ({ name, mode: 0o644, from: Buffer.from(text) }),
  );
  return keepFiles(dir, [
    ...directories.map((name) => ({ name, directory: true }) as const),
    ...files,
    ...texts,
  ]);
}

/** Makes (once per content) the /etc of an account's sandboxes below `dir` and answers its path. */
export function etcMaker(dir: string, view: SystemView): (account: Account) => string {
  const made = new Map<string, string>();
  return (account) => {
    const key = `${account.uid}:${account.gid}`;
    const path = made.get(key) ?? makeEtc(dir, view, account);
    made.set(key, path);
    return path;
  };
}
