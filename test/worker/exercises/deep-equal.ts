import { bash, type Exercise, edit, JS, read, write } from './exercise.ts';

export const exercise: Exercise = {
  prompt: 'deepEqual says that [] and {} are the same and that NaN is not NaN. See log.txt for the reports.',
  fault: 'compaction',
  tests: JS,
  files: {
    'equal.mjs': `export function deepEqual(a, b) {
  if (a === b) return true;
  if (typeof a !== 'object' || typeof b !== 'object') return false;
  const keys = Object.keys(a);
  return keys.every((key) => deepEqual(a[key], b[key]));
}
`,
    'log.txt': 'report: deepEqual([], {}) gave true on 北京 build\n'.repeat(440),
    'test.mjs': `import assert from 'node:assert';
import { deepEqual } from './equal.mjs';
const same = [[1, 1], [NaN, NaN], [null, null], [[1, [2]], [1, [2]]], [{ a: { b: 1 } }, { a: { b: 1 } }]];
const different = [[1, 2], [[], {}], [null, {}], [{}, null], [{ a: 1 }, { a: 1, b: 2 }], [{ a: undefined }, { b: undefined }], [0, -0]];
for (const [a, b] of same) assert.equal(deepEqual(a, b), true);
for (const [a, b] of different) assert.equal(deepEqual(a, b), false);
`,
  },
  steps: [
    read('log.txt'),
    bash(JS),
    read('equal.mjs'),
    edit('equal.mjs', 'if (a === b) return true;', 'if (a === b) return true;'),
    write(
      'equal.mjs',
      `export function deepEqual(a, b) {
  if (Object.is(a, b)) return true;
  if (typeof a !== 'object' || typeof b !== 'object' || a === null || b === null) return false;
  if (Array.isArray(a) !== Array.isArray(b)) return false;
  const keys = Object.keys(a);
  if (keys.length !== Object.keys(b).length) return false;
  return keys.every((key) => Object.hasOwn(b, key) && deepEqual(a[key], b[key]));
}
`,
    ),
    bash(JS),
  ],
};
