// The per-control table that doctor, start and the demo print: what is held here, why not, and the mend.
import type { EnforcementReport } from '../spawner/wire.ts';

/** One line per control; reasons and mends once each below, referred to by number. */
export function formatEnforcement(report: EnforcementReport): string {
  const notes: string[] = [];
  const noteOf = (reason: string, remedy: string): string => {
    const note = `why:  ${reason}\n      mend: ${remedy}`;
    if (!notes.includes(note)) notes.push(note);
    return `[${notes.indexOf(note) + 1}]`;
  };
  const rows = Object.entries(report.controls).map(([name, { level, reason, remedy }]) => {
    const note = reason === undefined ? '' : noteOf(reason, remedy ?? 'none known');
    return `  ${name.padEnd(12)}${level.padEnd(9)}${note}`.trimEnd();
  });
  const head = `enforcement (kernel ${report.kernel}, cgroups: ${report.hierarchy}, mode: ${report.mode})`;
  const verdict = report.refused ? [`strict mode runs no job here: ${report.reason ?? ''}`] : [];
  return [head, ...rows, ...notes.map((note, index) => `  [${index + 1}] ${note}`), ...verdict, ''].join(
    '\n',
  );
}
