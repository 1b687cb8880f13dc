import { bash, type Exercise, edit, JS, read } from './exercise.ts';

export const exercise: Exercise = {
  prompt: 'spiral(matrix) lists the values of a matrix from the outside in, but single rows come twice.',
  fault: 'kill',
  tests: JS,
  files: {
    'spiral.mjs': `export function spiral(matrix) {
  const rest = matrix.map((row) => [...row]);
  const values = [];
  while (rest.length > 0) {
    values.push(...rest.shift());
    for (const row of rest) values.push(row.pop());
    values.push(...rest.pop().reverse());
    for (const row of rest) values.push(row.shift());
  }
  return values;
}
`,
    'test.mjs': `import assert from 'node:assert';
import { spiral } from './spiral.mjs';
assert.deepEqual(spiral([]), []);
assert.deepEqual(spiral([[1, 2, 3]]), [1, 2, 3]);
assert.deepEqual(spiral([[1], [2], [3]]), [1, 2, 3]);
assert.deepEqual(spiral([[1, 2, 3], [4, 5, 6], [7, 8, 9]]), [1, 2, 3, 6, 9, 8, 7, 4, 5]);
`,
  },
  steps: [
    read('spiral.mjs'),
    bash(JS),
    edit('spiral.mjs', 'for (const row of rest) values', 'for (const line of rest) values'),
    edit(
      'spiral.mjs',
      'values.push(...rest.pop().reverse());',
      'values.push(...(rest.pop() ?? []).reverse());',
    ),
    bash(JS),
    edit('spiral.mjs', '  return values;', '  return values.filter((value) => value !== undefined);'),
    bash(JS),
  ],
};
