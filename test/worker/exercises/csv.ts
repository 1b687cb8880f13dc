import { bash, type Exercise, edit, edits, JS, read } from './exercise.ts';

export const exercise: Exercise = {
  prompt:
    'parseCsv breaks on quoted fields. Mend csv.mjs; the table in notes.txt is an example of what comes in.',
  fault: 'compaction',
  tests: JS,
  files: {
    'csv.mjs': `export function parseCsv(text) {
  const rows = [[]];
  let field = '';
  for (const char of text) {
    if (char === ',') { rows.at(-1).push(field); field = ''; }
    else if (char === '\\n') { rows.at(-1).push(field); field = ''; rows.push([]); }
    else field += char;
  }
  rows.at(-1).push(field);
  return rows;
}
`,
    'notes.txt': 'name,remark\n"Doe, Jane","said ""no"""\n'.repeat(430),
    'test.mjs': `import assert from 'node:assert';
import { parseCsv } from './csv.mjs';
assert.deepEqual(parseCsv('a,b\\nc,d'), [['a', 'b'], ['c', 'd']]);
assert.deepEqual(parseCsv('"a,b",c'), [['a,b', 'c']]);
assert.deepEqual(parseCsv('"say ""hi""\\nthere",x'), [['say "hi"\\nthere', 'x']]);
`,
  },
  steps: [
    read('notes.txt'),
    read('csv.mjs'),
    bash(JS),
    edit('csv.mjs', 'rows.at(-1).push(field);', 'rows.at(-1).push(field.trim());'),
    edits('csv.mjs', [
      "  let field = '';\n  for (const char of text) {\n",
      "  let field = '';\n  let quoted = false;\n  for (let at = 0; at < text.length; at += 1) {\n    const char = text[at];\n    if (quoted && char === '\"' && text[at + 1] === '\"') { field += char; at += 1; }\n    else if (char === '\"') quoted = !quoted;\n    else if (quoted) field += char;\n    else\n",
    ]),
    bash(JS),
  ],
};
