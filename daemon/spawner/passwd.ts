// Reads the machine's own lists of users, groups and subordinate uids. Never writes them.
import { readFileSync } from 'node:fs';
import { join } from 'node:path';

export interface PasswdEntry {
  user: string;
  uid: number;
  gid: number;
  gecos: string;
}

function lines(path: string): string[][] {
  try {
    return readFileSync(path, 'utf8')
      .split('\n')
      .filter((line) => line !== '' && !line.startsWith('#'))
      .map((line) => line.split(':'));
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code === 'ENOENT') return [];
    throw error;
  }
}

export function readPasswd(etcDir: string): PasswdEntry[] {
  return lines(join(etcDir, 'passwd')).map(([user = '', , uid, gid, gecos = '']) => ({
    user,
    uid: Number(uid),
    gid: Number(gid),
    gecos,
  }));
}

export function readGroupIds(etcDir: string): Map<string, number> {
  return new Map(lines(join(etcDir, 'group')).map(([name = '', , gid]) => [name, Number(gid)]));
}

/** Ranges that users may map into their own user namespaces: a tenant's uid there would be theirs to use. */
export function readSubordinateRanges(etcDir: string): { first: number; last: number }[] {
  return ['subuid', 'subgid'].flatMap((file) =>
    lines(join(etcDir, file)).map(([, first, count]) => ({
      first: Number(first),
      last: Number(first) + Number(count) - 1,
    })),
  );
}
