// The per-control table that doctor, start and the demo print: what is held here, why not, and the mend.
import { REQUIRED } from '../spawner/required-controls.ts';
import type { EnforcementReport } from '../spawner/wire.ts';

/** One line per control, those that strict mode requires marked; reasons and mends once each below, referred to by number. */
export function formatEnforcement(report: EnforcementReport): string {
  const notes: string[] = [];
  const noteOf = (reason: string, remedy: string): string => {
    const note = `why:  ${reason}\n      mend: ${remedy}`;
    if (!notes.includes(note)) notes.push(note);
    return `[${notes.indexOf(note) + 1}]`;
  };
  const rows = Object.entries(report.controls).map(([name, { level, reason, remedy }]) => {
    const note = reason === undefined ? '' : noteOf(reason, remedy ?? 'none known');
    const required = REQUIRED.some((one) => one === name) ? 'required' : '';
    return `  ${name.padEnd(12)}${level.padEnd(9)}${required.padEnd(10)}${note}`.trimEnd();
  });
  const head = `enforcement (kernel ${report.kernel}, cgroups: ${report.hierarchy}, mode: ${report.mode})`;
  const missing = REQUIRED.filter((name) => report.controls[name]?.level !== 'full');
  const verdict =
    missing.length === 0
      ? ['every required control is full: strict mode runs jobs here']
      : [`strict mode runs no job here: ${missing.join(', ')} must be full`];
  return [head, ...rows, ...notes.map((note, index) => `  [${index + 1}] ${note}`), ...verdict, ''].join(
    '\n',
  );
}
