// Text tables in psql's aligned format.

/** Headings, a rule and the rows, columns as wide as their widest value. Line feeds in values are shown as \\n. */
export function formatTable(headings: string[], rows: string[][]): string {
  const cells = [headings, ...rows].map((row) => row.map((value) => value.replaceAll('\n', '\\n')));
  const widths = headings.map((_, column) => Math.max(...cells.map((row) => width(row[column] ?? ''))));
  const line = (row: string[]) =>
    ` ${row.map((value, column) => value + ' '.repeat((widths[column] ?? 0) - width(value))).join(' | ')}`.trimEnd();
  const rule = widths.map((size) => '-'.repeat(size + 2)).join('+');
  const [head = [], ...body] = cells;
  return [line(head), rule, ...body.map(line)].map((text) => `${text}\n`).join('');
}

const width = (value: string): number => [...value].length;
