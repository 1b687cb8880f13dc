// The two system users of djinnd: looks them up and makes those that are missing. Never changes or removes one.
import { execa } from 'execa';
import type { Logger } from 'pino';
import type { Account } from '../db/embedded-cluster.ts';

export const DAEMON_USER = 'djinnd';
export const DATABASE_USER = 'djinnd-pg';

/** The user's ids, or null when there is no such user. */
export async function findUser(name: string): Promise<Account | null> {
  const { stdout, exitCode } = await execa('getent', ['passwd', name], { reject: false });
  if (exitCode !== 0) return null;
  const [, , uid, gid] = stdout.split(':').map(Number);
  if (uid === undefined || gid === undefined || !(uid > 0) || !(gid > 0)) {
    throw new Error(`the user ${name} exists but has no ids of its own: "${stdout}"`);
  }
  return { uid, gid };
}

/** As findUser, but makes the user first when it is missing, and says so. */
export async function ensureUser(name: string, log: Logger): Promise<Account> {
  const found = await findUser(name);
  if (found !== null) return found;
  log.info({ user: name }, 'creating the system user');
  const options = ['--system', '--user-group', '--no-create-home', '--home-dir', '/nonexistent'];
  const made = await execa('useradd', [...options, '--shell', '/usr/sbin/nologin', name], {
    reject: false,
    env: { PATH: '/usr/sbin:/usr/bin:/sbin:/bin' },
  });
  const account = await findUser(name);
  if (account === null)
    throw new Error(`the system user ${name} cannot be created: ${made.stderr || made.message}`);
  return account;
}
