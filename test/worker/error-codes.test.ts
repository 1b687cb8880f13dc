import assert from 'node:assert/strict';
import { readdirSync, readFileSync } from 'node:fs';
import { join } from 'node:path';
import { test } from 'node:test';
import { fileURLToPath } from 'node:url';
import { ERROR_CODES } from '../../worker/index.ts';

const worker = fileURLToPath(new URL('../../worker/', import.meta.url));

function sources(folder: string): string[] {
  return readdirSync(folder, { withFileTypes: true }).flatMap((entry) => {
    const path = join(folder, entry.name);
    if (entry.isDirectory()) return entry.name === 'dist' ? [] : sources(path);
    return entry.name.endsWith('.ts') ? [readFileSync(path, 'utf8')] : [];
  });
}

test('the table in the README is the table of the source, code by code', () => {
  const readme = readFileSync(join(worker, 'README.md'), 'utf8');
  const rows = [...readme.matchAll(/^\| `([a-z_]+)` +\| (.+?) +\| (yes|no) +\|$/gm)];
  assert.deepEqual(
    rows.map(([, code, meaning, retryable]) => [code, meaning, retryable]),
    Object.entries(ERROR_CODES).map(([code, [meaning, retryable]]) => [
      code,
      meaning,
      retryable ? 'yes' : 'no',
    ]),
  );
});

test('every code that the source gives is in the table, and every code of the table is given somewhere', () => {
  const texts = sources(worker).filter((text) => !text.includes('export const ERROR_CODES'));
  const given = new Set<string>();
  // A RunError takes a code of the table only, and failure.ts maps all other errors to one: both are checked by types.
  for (const text of texts) {
    for (const [, code] of text.matchAll(/new RunError\(\s*'([a-z_]+)'/g)) given.add(code as string);
    for (const [, code] of text.matchAll(/'([a-z_]+)' satisfies ErrorCode/g)) given.add(code as string);
  }
  const failure = readFileSync(join(worker, 'failure.ts'), 'utf8');
  for (const [, code] of failure.matchAll(/(?::|\?) '([a-z_]+)'/g)) given.add(code as string);
  const cli = readFileSync(join(worker, 'cli.ts'), 'utf8');
  for (const [, code] of cli.matchAll(/(?:\?|:|=) '(interrupted|terminated|bad_job|usage)'/g))
    given.add(code as string);
  assert.deepEqual([...given].sort(), Object.keys(ERROR_CODES).sort());
});
