import assert from 'node:assert/strict';
import { mkdirSync, writeFileSync } from 'node:fs';
import { dirname } from 'node:path';
import { test } from 'node:test';
import fc from 'fast-check';
import { compileGlob } from '../../../worker/tools/glob-match.ts';
import { workspace } from './support.ts';

const MATCHES: [pattern: string, yes: string[], no: string[]][] = [
  ['*.ts', ['a.ts', '.ts'], ['a/b.ts', 'a.tsx']],
  ['**/*.ts', ['a.ts', 'a/b.ts', 'a/b/c.ts'], ['a.js']],
  ['src/**', ['src/a', 'src/a/b'], ['srcs/a']],
  ['src/**/x/*', ['src/x/a', 'src/b/c/x/a'], ['src/x', 'src/x/a/b']],
  ['{a,b{c,d}}.t?', ['a.ts', 'bc.ts', 'bd.tx'], ['b.ts', 'a.t']],
  ['[!a-c]x[]]', ['dx]'], ['ax]', 'dx']],
  ['[', ['['], ['a']],
  ['\\*', ['*'], ['a']],
  ['{a}', ['{a}'], ['a']],
  ['./a', ['a'], ['b']],
  ['?', ['🏷'], ['ab']],
];

for (const [pattern, yes, no] of MATCHES) {
  test(`the pattern ${pattern} matches ${yes.join(', ')} and not ${no.join(', ')}`, () => {
    const matches = compileGlob(pattern);
    for (const path of yes) assert.equal(matches(path), true, path);
    for (const path of no) assert.equal(matches(path), false, path);
  });
}

test('a pattern of stars agrees with the regular expression of the same meaning', () => {
  const letters = fc.string({ unit: fc.constantFrom('a', 'b', '*'), maxLength: 8 });
  fc.assert(
    fc.property(
      letters,
      fc.string({ unit: fc.constantFrom('a', 'b'), minLength: 1, maxLength: 10 }),
      (pattern, name) => {
        fc.pre(pattern !== '' && pattern !== '**');
        const expected = new RegExp(`^${pattern.replace(/\*+/g, '.*')}$`).test(name);
        assert.equal(compileGlob(pattern)(name), expected);
      },
    ),
  );
});

test('C061 a hostile pattern costs no time', () => {
  const startMs = Date.now();
  assert.equal(compileGlob(`${'*a'.repeat(300)}b`)('a'.repeat(255)), false);
  assert.equal(compileGlob(`${'**/a/'.repeat(100)}b`)('a/'.repeat(500)), false);
  assert.throws(() => compileGlob('{a,b}'.repeat(20)), /more than 256 alternatives/);
  assert.ok(Date.now() - startMs < 1000);
});

test('a search that is cancelled tells what it found until then', async (t) => {
  const { call, path } = workspace(t);
  for (let index = 0; index < 300; index++) writeFileSync(path(`${index}`), '');
  const signal = AbortSignal.abort();
  let asked = 0;
  // Aborted while the walk is on its way.
  const late = Object.defineProperty(new EventTarget(), 'aborted', {
    get: () => ++asked > 20 && signal.aborted,
  });
  const outcome = await call('glob', {}, { signal: late as AbortSignal });
  assert.equal(outcome.isError, true);
  assert.match(outcome.content, /^0\n1\n.*\nglob: cancelled$/s);
});

test('the list is sorted, bounded, leaves out .git and node_modules, and quotes names that look like two', async (t) => {
  const { call, path } = workspace(t);
  const touch = (name: string) => {
    mkdirSync(dirname(path(name)), { recursive: true });
    writeFileSync(path(name), '');
  };
  for (const name of ['b', 'a/z', 'a/.hidden', 'c\nd', '.git/config', 'node_modules/x/index.js']) touch(name);
  assert.equal((await call('glob', {})).content, 'a/.hidden\na/z\nb\n"c\\nd"');
  assert.equal((await call('glob', { path: 'node_modules' })).content, 'node_modules/x/index.js');
  assert.equal((await call('glob', { pattern: path('a/*'), path: 'a' })).content, 'a/.hidden\na/z');
  assert.match((await call('glob', { pattern: '../*' })).content, /use path/);
  assert.match((await call('glob', { path: 'b' })).content, /not a directory/);
  for (let index = 0; index < 1100; index++) touch(`many/${index}`);
  assert.match((await call('glob', { path: 'many' })).content, /\[only the first 1000 are listed/);
});
