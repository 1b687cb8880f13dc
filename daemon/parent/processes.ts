// What the parent runs: the command lines, users and environments of its children. Starts nothing itself.
import { join } from 'node:path';
import { type Config, configEnv, modelEnv } from '../config.ts';
import { EMBEDDED_DATABASE } from '../db/embedded.ts';
import { type Account, EMBEDDED_SUPERUSER } from '../db/embedded-cluster.ts';
import type { ChildSpec } from './child.ts';
import { places } from './directories.ts';
import { DAEMON_USER } from './users.ts';

const PATH = '/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin';

/** A connection string for the embedded database: the socket's folder and the role; no password exists. */
export function embeddedUrl(config: Config, role: string): string {
  const host = encodeURIComponent(places(config).databaseSocket);
  return `postgresql://${role}@/${EMBEDDED_DATABASE}?host=${host}`;
}

export interface Family {
  config: Config;
  appRoot: string;
  /** Null: everything runs as the one user that started it. */
  daemonUser: Account | null;
}

/** The spawner gets neither the database nor any key. */
export function spawnerSpec(family: Family, afterDeath: () => void): ChildSpec {
  return {
    name: 'spawner',
    command: command(family, 'spawner'),
    env: baseEnv(family),
    user: null,
    afterDeath,
  };
}

export function daemonSpec(family: Family): ChildSpec {
  const { config, daemonUser } = family;
  return {
    name: 'djinnd',
    command: command(family, 'serve'),
    env: {
      ...baseEnv(family),
      ...modelEnv(config),
      DATABASE_URL: config.databaseUrl ?? embeddedUrl(config, 'djinnd_app'),
    },
    user: daemonUser === null ? null : { ...daemonUser, name: DAEMON_USER },
  };
}

/** The one-shot that runs before both. On the embedded database as its superuser, whom only the parent may be. */
export function migrationSpec(family: Family): { command: string[]; env: Record<string, string> } {
  const url = family.config.databaseUrl ?? embeddedUrl(family.config, EMBEDDED_SUPERUSER);
  return { command: command(family, 'migrate'), env: { ...baseEnv(family), DATABASE_URL: url } };
}

function command({ appRoot }: Family, name: string): string[] {
  return [process.execPath, join(appRoot, 'daemon/main.ts'), name];
}

function baseEnv({ config }: Family): Record<string, string> {
  return { PATH, LANG: 'C.UTF-8', ...configEnv(config) };
}
