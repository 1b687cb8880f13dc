import { bash, type Exercise, edit, grep, JS, read } from './exercise.ts';

export const exercise: Exercise = {
  prompt: '1.10.0 must come after 1.9.0, and 1.0.0-beta before 1.0.0. Mend compare().',
  fault: 'rate_limit',
  tests: JS,
  files: {
    'lib/semver.mjs': `export function compare(a, b) {
  return a < b ? -1 : a > b ? 1 : 0;
}
`,
    'test.mjs': `import assert from 'node:assert';
import { compare } from './lib/semver.mjs';
const sorted = ['0.9.0', '1.0.0-alpha', '1.0.0-beta', '1.0.0', '1.9.0', '1.10.0', '2.0.0'];
assert.deepEqual([...sorted].reverse().sort(compare), sorted);
assert.equal(compare('1.0.0', '1.0.0'), 0);
`,
  },
  steps: [
    grep('function compare'),
    read('lib/semver.mjs'),
    bash(JS),
    edit('lib/semver.mjs', 'return a<b', 'return a.localeCompare(b)'),
    edit(
      'lib/semver.mjs',
      '  return a < b ? -1 : a > b ? 1 : 0;\n',
      `  const [left, right] = [parse(a), parse(b)];
  for (let at = 0; at < 3; at += 1) if (left.numbers[at] !== right.numbers[at]) return left.numbers[at] - right.numbers[at];
  if (left.tag === right.tag) return 0;
  if (left.tag === '' || right.tag === '') return left.tag === '' ? 1 : -1;
  return left.tag < right.tag ? -1 : 1;
}

function parse(version) {
  const [core, tag = ''] = version.split('-');
  return { numbers: core.split('.').map(Number), tag };
`,
    ),
    bash(JS),
  ],
};
