// Figures and tables: quantiles, ratios, and the text that is printed of them. Pure.

/** One table of results and the same as data. */
export interface Part {
  name: string;
  title: string;
  columns: string[];
  rows: string[][];
  notes: string[];
  data: unknown;
}

/** The value below which the fraction `share` of the sample lies (nearest rank). NaN of an empty sample. */
export function quantile(sample: readonly number[], share: number): number {
  const sorted = [...sample].sort((a, b) => a - b);
  return sorted[Math.min(sorted.length - 1, Math.max(0, Math.ceil(share * sorted.length) - 1))] ?? Number.NaN;
}

export const p50 = (sample: readonly number[]): number => quantile(sample, 0.5);
export const p95 = (sample: readonly number[]): number => quantile(sample, 0.95);
export const p99 = (sample: readonly number[]): number => quantile(sample, 0.99);

/** A figure with about three digits. */
export function figure(value: number): string {
  if (!Number.isFinite(value)) return '-';
  if (Math.abs(value) >= 1000) return Math.round(value).toLocaleString('en');
  return value.toFixed(Math.abs(value) >= 100 ? 0 : Math.abs(value) >= 10 ? 1 : 2);
}

/** Columns padded to their widest cell; the first is words, the others end flush right. */
export function formatPart({ title, columns, rows, notes }: Part): string {
  const all = [columns, ...rows];
  const widths = columns.map((_, index) => Math.max(...all.map((row) => row[index]?.length ?? 0)));
  const line = (row: string[]): string =>
    `  ${row.map((cell, index) => (index === 0 ? cell.padEnd(widths[0] ?? 0) : cell.padStart(widths[index] ?? 0))).join('  ')}`.trimEnd();
  return [title, ...all.map(line), ...notes.map((note) => `  ${note}`), ''].join('\n');
}
