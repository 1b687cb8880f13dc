// The per-control table that doctor, start and the demo print: what is held here, why not, and the mend.
import type { EnforcementReport } from '../spawner/wire.ts';

/** One line per control, with reason and mend below each that is not full. */
export function formatEnforcement(report: EnforcementReport): string {
  const names = Object.keys(report.controls);
  const width = Math.max(...names.map((name) => name.length));
  const lines = [
    `enforcement on this machine (kernel ${report.kernel}, cgroups: ${report.hierarchy}, mode ${report.mode})`,
  ];
  for (const [name, { level, reason, remedy }] of Object.entries(report.controls)) {
    lines.push(`  ${name.padEnd(width)}  ${level}`);
    if (reason !== undefined) lines.push(`  ${' '.repeat(width)}    why:  ${reason}`);
    if (remedy !== undefined) lines.push(`  ${' '.repeat(width)}    mend: ${remedy}`);
  }
  if (report.refused) lines.push(`strict mode runs no job here: ${report.reason ?? ''}`);
  return `${lines.join('\n')}\n`;
}
