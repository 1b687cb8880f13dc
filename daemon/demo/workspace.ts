// Looks at a job's result as the tenant's own user: root never opens anything below a tenant's directory.
import { join } from 'node:path';
import { execa } from 'execa';
import { askSpawner } from '../ask-spawner.ts';
import type { Config } from '../config.ts';

export interface Seen {
  /** The tenant's user; without root the one user for all. */
  user: string;
  /** Owner of the file as stat(1) names it. */
  owner: string;
  text: string;
}

export const workspaceDir = (config: Config, tenantId: string, sessionId: string): string =>
  join(config.stateDir, 'workspaces', tenantId, sessionId);

/** Reads one file of the workspace with the tenant's user and group and no others. */
export async function readAsTenant(config: Config, tenantId: string, path: string): Promise<Seen> {
  const { user, uid } = await askSpawner(config.runDir, 'tenant', { tenantId });
  const drop =
    process.getuid?.() === 0 ? ['setpriv', `--reuid=${uid}`, `--regid=${uid}`, '--clear-groups', '--'] : [];
  const look = async (command: string[]): Promise<string> => {
    const [program = '', ...args] = [...drop, ...command];
    return (await execa(program, args, { cwd: '/', stripFinalNewline: false })).stdout;
  };
  return { user, owner: (await look(['stat', '-c', '%U', path])).trim(), text: await look(['cat', path]) };
}
