// What this machine holds of what it should, in one report; and whether strict mode may run jobs on it. Pure.
import type { ControlReport, ProbeReport } from '../../cgroups/index.ts';
import type { EnforcementReport, SandboxControl } from './wire.ts';

/** Strict mode runs nothing unless each of these is full. */
export const REQUIRED = ['memory', 'swap', 'pids', 'cpu', 'kill', 'uid', 'namespaces', 'seccomp'] as const;

export function enforcementReport(
  mode: EnforcementReport['mode'],
  cgroups: ProbeReport,
  sandbox: Partial<Record<SandboxControl, ControlReport>>,
): EnforcementReport {
  const controls: Record<string, ControlReport> = { ...cgroups.controls, ...sandbox };
  const missing = REQUIRED.filter((name) => controls[name]?.level !== 'full');
  const refused = mode === 'strict' && missing.length > 0;
  const base = { mode, hierarchy: cgroups.hierarchy, kernel: cgroups.kernel, controls };
  if (!refused) return { ...base, refused };
  const why = missing.map(
    (name) => `${name} is ${controls[name]?.level ?? 'unknown'}: ${controls[name]?.reason ?? 'not probed'}`,
  );
  return { ...base, refused, reason: why.join('; ') };
}

/** The levels alone, as each `end` carries them. */
export function levelsOf({ controls }: EnforcementReport): Record<string, string> {
  return Object.fromEntries(Object.entries(controls).map(([name, { level }]) => [name, level]));
}
