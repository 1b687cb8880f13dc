import { bash, type Exercise, edit, edits, grep, JS, read } from './exercise.ts';

export const exercise: Exercise = {
  prompt:
    'split() loses cents. Rename it to share() everywhere and make it exact; ledger.txt shows the damage.',
  fault: 'compaction',
  tests: JS,
  files: {
    'money.mjs': `export function split(cents, people) {
  return Array(people).fill(Math.floor(cents / people));
}
`,
    'bill.mjs': `import { split } from './money.mjs';
export const bill = (cents, names) => Object.fromEntries(split(cents, names.length).map((part, at) => [names[at], part]));
`,
    'ledger.txt': 'split 1000 by 3: 333 333 333, lost 1\n'.repeat(580),
    'test.mjs': `import assert from 'node:assert';
import { bill } from './bill.mjs';
import { share } from './money.mjs';
assert.deepEqual(share(1000, 3), [334, 333, 333]);
assert.deepEqual(share(-5, 2), [-2, -3]);
assert.deepEqual(bill(100, ['a', 'b', 'c']), { a: 34, b: 33, c: 33 });
`,
  },
  steps: [
    read('ledger.txt'),
    grep('split\\('),
    bash(JS),
    edits('bill.mjs', ['{ split }', '{ share }'], ['split(people', 'share(people']),
    edits('bill.mjs', ['{ split }', '{ share }'], ['split(cents', 'share(cents']),
    edit(
      'money.mjs',
      'split(cents, people) {\n  return Array(people).fill(Math.floor(cents / people));',
      'share(cents, people) {\n  const part = Math.floor(cents / people);\n  const rest = cents - part * people;\n  return Array.from({ length: people }, (_, at) => part + (at < rest ? 1 : 0));',
    ),
    bash(JS),
  ],
};
