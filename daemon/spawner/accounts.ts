// The system users of tenants: one for each, made when first needed, never given to a second one.
import { type ChildProcess, spawn } from 'node:child_process';
import { once } from 'node:events';
import { closeSync, fchmodSync, openSync } from 'node:fs';
import { userInfo } from 'node:os';
import { join } from 'node:path';
import { execa } from 'execa';
import { readGroupIds, readPasswd, readSubordinateRanges } from './passwd.ts';
import {
  readUidRegistry,
  TENANT_UIDS,
  takeUid,
  type UidRange,
  type UidRegistry,
  writeUidRegistry,
} from './uid-registry.ts';

export interface Account {
  user: string;
  uid: number;
  gid: number;
}

export interface AccountsOptions {
  /** Holds `uids.json`; root's. */
  stateDir: string;
  /** False: everything runs as this process's own user. */
  privileged: boolean;
  range?: UidRange;
  /** Root of the system whose users are made; `/` unless a test brings its own. */
  systemRoot?: string;
}

export interface Accounts {
  /** The tenant's user, made when there is none. Idempotent and safe against others doing the same. */
  ensure(tenantId: string): Promise<Account>;
}

const LOCK_TIMEOUT_SECONDS = 30;
/** useradd: the uid is taken, as the name service sees it. */
const UID_NOT_UNIQUE = 4;
const COMMAND = {
  env: { PATH: '/usr/sbin:/usr/bin:/sbin:/bin', LC_ALL: 'C' },
  extendEnv: false,
  timeout: 60_000,
};

const userName = (uid: number): string => `djt${uid}`;
const gecosOf = (tenantId: string): string => `djinnd tenant ${tenantId}`;

/** Holds an advisory lock on a file while `work` runs; the kernel frees it when either process dies. */
async function withLock<T>(path: string, work: () => Promise<T>): Promise<T> {
  // Whoever may read a file may lock it.
  const fd = openSync(path, 'a', 0o600);
  fchmodSync(fd, 0o600);
  closeSync(fd);
  const holder: ChildProcess = spawn(
    'flock',
    [
      '--exclusive',
      '--timeout',
      String(LOCK_TIMEOUT_SECONDS),
      path,
      '/bin/sh',
      '-c',
      'echo locked; read -r done',
    ],
    { ...COMMAND, stdio: ['pipe', 'pipe', 'ignore'] },
  );
  holder.stdin?.on('error', () => {}); // it ended first: 'close' says so
  const closed = once(holder, 'close');
  const locked = await Promise.race([
    once(holder.stdout as NonNullable<typeof holder.stdout>, 'data'),
    closed,
  ]);
  if (!String(locked[0]).startsWith('locked')) throw new Error(`${path} is locked by another spawner`);
  try {
    return await work();
  } finally {
    holder.stdin?.end();
    await closed;
  }
}

class TenantAccounts implements Accounts {
  readonly #registryPath: string;
  readonly #lockPath: string;
  readonly #range: UidRange;
  readonly #root: string;
  readonly #known = new Map<string, Account>();
  #queue: Promise<unknown> = Promise.resolve();

  constructor({ stateDir, range = TENANT_UIDS, systemRoot = '/' }: AccountsOptions) {
    this.#registryPath = join(stateDir, 'uids.json');
    this.#lockPath = join(stateDir, 'uids.lock');
    this.#range = range;
    this.#root = systemRoot;
  }

  async ensure(tenantId: string): Promise<Account> {
    const known = this.#known.get(tenantId);
    if (known !== undefined) return known;
    const made = this.#queue.then(() => this.#known.get(tenantId) ?? this.#ensure(tenantId));
    this.#queue = made.catch(() => {}); // the caller of `made` gets the error
    return await made;
  }

  async #ensure(tenantId: string): Promise<Account> {
    const account = await withLock(this.#lockPath, () => this.#ensureLocked(tenantId));
    this.#known.set(tenantId, account);
    return account;
  }

  async #ensureLocked(tenantId: string): Promise<Account> {
    let registry = this.#adopt(readUidRegistry(this.#registryPath, this.#range));
    for (;;) {
      const uid = registry.tenants[tenantId];
      if (uid !== undefined && (await this.#makeUser(tenantId, uid)))
        return { user: userName(uid), uid, gid: uid };
      registry = takeUid(registry, tenantId, this.#taken(), this.#range).registry;
      writeUidRegistry(this.#registryPath, registry); // before the user exists: a crash wastes a uid, never doubles one
    }
  }

  /** Users that an earlier registry made keep their uid even when that registry is gone. */
  #adopt(registry: UidRegistry): UidRegistry {
    let adopted = false;
    for (const { user, uid, gecos } of readPasswd(join(this.#root, 'etc'))) {
      const tenantId = gecos.split(',')[0]?.replace(/^djinnd tenant /, '') ?? '';
      if (user !== userName(uid) || gecosOf(tenantId) !== gecos.split(',')[0]) continue;
      if (registry.tenants[tenantId] !== undefined && registry.next > uid) continue;
      registry.tenants[tenantId] ??= uid;
      registry.next = Math.max(registry.next, uid + 1);
      adopted = true;
    }
    if (adopted) writeUidRegistry(this.#registryPath, registry);
    return registry;
  }

  #taken(): (uid: number) => boolean {
    const etc = join(this.#root, 'etc');
    const uids = new Set([...readPasswd(etc).map(({ uid }) => uid), ...readGroupIds(etc).values()]);
    const ranges = readSubordinateRanges(etc);
    return (uid) => uids.has(uid) || ranges.some(({ first, last }) => uid >= first && uid <= last);
  }

  /** False when the uid turns out to be somebody else's. */
  async #makeUser(tenantId: string, uid: number): Promise<boolean> {
    const user = userName(uid);
    const etc = join(this.#root, 'etc');
    const there = readPasswd(etc).find((entry) => entry.user === user || entry.uid === uid);
    if (there !== undefined) {
      return there.user === user && there.uid === uid && there.gecos.split(',')[0] === gecosOf(tenantId);
    }
    const prefix = this.#root === '/' ? [] : ['--prefix', this.#root];
    const id = String(uid);
    if (readGroupIds(etc).get(user) !== uid) {
      await execa('groupadd', [...prefix, '--system', '--gid', id, user], COMMAND);
    }
    const entry = [
      '--comment',
      gecosOf(tenantId),
      '--home-dir',
      '/nonexistent',
      '--shell',
      '/usr/sbin/nologin',
    ];
    const options = ['--system', '--uid', id, '--gid', id, '--no-create-home', '--no-log-init', ...entry];
    const result = await execa('useradd', [...prefix, ...options, user], { ...COMMAND, reject: false });
    if (result.exitCode === UID_NOT_UNIQUE) return false;
    if (result.failed) throw new Error(`useradd for tenant ${tenantId}: ${result.stderr || result.message}`);
    return true;
  }
}

/** Accounts of this machine; as non-root one user stands for all tenants. */
export function createAccounts(options: AccountsOptions): Accounts {
  if (options.privileged) return new TenantAccounts(options);
  const { username, uid, gid } = userInfo();
  return { ensure: async () => ({ user: username, uid, gid }) };
}
