import { bash, type Exercise, edit, JS, read, write } from './exercise.ts';

export const exercise: Exercise = {
  prompt:
    'Write wrap.mjs: wrap(text, width) breaks between words, and inside a word only when it is too long.',
  fault: 'kill',
  tests: JS,
  files: {
    'wrap.mjs': 'export const wrap = (text) => text;\n',
    'test.mjs': `import assert from 'node:assert';
import { wrap } from './wrap.mjs';
assert.equal(wrap('', 5), '');
assert.equal(wrap('one two three', 7), 'one two\\nthree');
assert.equal(wrap('abcdefgh ij', 3), 'abc\\ndef\\ngh\\nij');
assert.equal(wrap('a  b', 10), 'a b');
`,
  },
  steps: [
    read('test.mjs'),
    bash(JS),
    edit('wrap.mjs', 'export function', 'export const'),
    write(
      'wrap.mjs',
      `export function wrap(text, width) {
  const lines = [];
  let line = '';
  for (let word of text.split(/ +/)) {
    if (line !== '' && line.length + 1 + word.length > width) { lines.push(line); line = ''; }
    while (word.length > width) { lines.push(word.slice(0, width)); word = word.slice(width); }
    line = line === '' ? word : line + ' ' + word;
  }
  return [...lines, line].join('\\n');
}
`,
    ),
    bash(JS),
  ],
};
