// What readiness is made of, kept up to date by those who find out.
import type { EnforcementReport } from '../spawner/wire.ts';
import type { Readiness } from './types.ts';

export interface Health {
  database: boolean;
  spawner: boolean;
  /** The spawner works with another djinnd. */
  controlledByOther: boolean;
  reconciled: boolean;
  /** Waiting jobs of all machines, as of a moment ago. */
  queued: number;
  stopping: boolean;
  enforcement: EnforcementReport | null;
  /** Engines of this machine; null until the spawner has said. */
  engines: ReadonlySet<string> | null;
}

export function newHealth(): Health {
  return {
    database: true,
    spawner: false,
    controlledByOther: false,
    reconciled: false,
    queued: 0,
    stopping: false,
    enforcement: null,
    engines: null,
  };
}

export function readinessOf(health: Health): Readiness {
  const reasons: string[] = [];
  if (health.stopping) reasons.push('djinnd is stopping');
  if (!health.database) reasons.push('the database cannot be reached');
  if (health.controlledByOther) reasons.push('the spawner works with another djinnd: stop one of the two');
  else if (!health.spawner) reasons.push('the spawner cannot be reached');
  if (!health.reconciled) reasons.push('jobs of an earlier run are still being found again');
  if (health.enforcement?.refused === true) {
    reasons.push(`no job may run: ${health.enforcement.reason ?? 'a required limit cannot be enforced'}`);
  }
  return { ready: reasons.length === 0, reasons };
}
