import { bash, type Exercise, edit, JS, read } from './exercise.ts';

export const exercise: Exercise = {
  prompt: 'toRoman in roman.mjs writes 4 as IIII. Make the tests pass.',
  fault: 'kill',
  tests: JS,
  files: {
    'roman.mjs': `const SIGNS = [[1000, 'M'], [500, 'D'], [100, 'C'], [50, 'L'], [10, 'X'], [5, 'V'], [1, 'I']];
export function toRoman(number) {
  let text = '';
  for (const [value, sign] of SIGNS) while (number >= value) { text += sign; number -= value; }
  return text;
}
`,
    'test.mjs': `import assert from 'node:assert';
import { toRoman } from './roman.mjs';
for (const [n, text] of [[1, 'I'], [4, 'IV'], [9, 'IX'], [1994, 'MCMXCIV'], [3999, 'MMMCMXCIX']]) assert.equal(toRoman(n), text);
`,
  },
  steps: [
    read('roman.mjs'),
    bash(JS),
    edit('roman.mjs', "[5, 'V'],  [1, 'I']", "[5, 'V'], [4, 'IV'], [1, 'I']"),
    edit('roman.mjs', "[5, 'V'], [1, 'I']", "[5, 'V'], [4, 'IV'], [1, 'I']"),
    bash(JS),
    edit(
      'roman.mjs',
      "[1000, 'M'], [500, 'D'], [100, 'C'], [50, 'L'], [10, 'X'], [5, 'V']",
      "[1000, 'M'], [900, 'CM'], [500, 'D'], [400, 'CD'], [100, 'C'], [90, 'XC'], [50, 'L'], [40, 'XL'], [10, 'X'], [9, 'IX'], [5, 'V']",
    ),
    bash(JS),
  ],
};
