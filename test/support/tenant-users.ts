// The system users that an instance of a test made for its tenants: who they are, and their removal.
import { execFileSync } from 'node:child_process';
import { readFileSync } from 'node:fs';

function findUid(tenantId: string): number | null {
  const passwd = readFileSync('/etc/passwd', 'utf8');
  const match = new RegExp(`^djt(\\d+):[^:]*:\\1:[^:]*:djinnd tenant ${tenantId}:`, 'm').exec(passwd);
  return match === null ? null : Number(match[1]);
}

/** The uid of a tenant's system user. Throws when there is none. */
export function uidOf(tenantId: string): number {
  const uid = findUid(tenantId);
  if (uid === null) throw new Error(`tenant ${tenantId} has no system user`);
  return uid;
}

/** djinnd never removes a user; a test that has removed every file of its instance may. Waits for others that edit /etc/passwd. */
export function removeUsers(tenantIds: readonly string[]): void {
  for (const uid of tenantIds.map(findUid)) {
    if (uid === null) continue;
    const remove = `for try in 1 2 3 4 5 6 7 8 9; do userdel "$1" && break; sleep 0.3; done; ! getent group "$1" || groupdel "$1"`;
    execFileSync('/bin/sh', ['-c', remove, 'remove', `djt${uid}`], { stdio: 'ignore' });
  }
}
