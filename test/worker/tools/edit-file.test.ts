import assert from 'node:assert/strict';
import { readFileSync, statSync } from 'node:fs';
import { test } from 'node:test';
import { workspace } from './support.ts';

const EDITS: [name: string, before: string, old: string, replacement: string, after: string][] = [
  [
    'C052 LF arguments change a CRLF file and keep its endings',
    'a\r\nb\r\nc\r\n',
    'b\nc',
    'X\nY',
    'a\r\nX\r\nY\r\n',
  ],
  [
    'C052 CRLF arguments change an LF file and keep its endings',
    'a\nb\nc\n',
    'b\r\nc',
    'X\r\nY',
    'a\nX\nY\n',
  ],
  ['C052 a mixed file changes in one byte only', 'a\nb\r\nc\n', 'a', 'A', 'A\nb\r\nc\n'],
  [
    'C052 new lines get the ending of the line that they go into',
    'a\nb\r\nc\n',
    'b',
    'x\ny',
    'a\nx\r\ny\r\nc\n',
  ],
  ['C052 a match may begin and end with a line ending', 'a\r\nb\r\nc', '\nb\n', '\nX\n', 'a\r\nX\r\nc'],
  ['C052 the last line takes the ending of the one before', 'a\r\nb', 'b', 'b\nc', 'a\r\nb\r\nc'],
  [
    'C053 a byte that is not UTF-8 survives',
    'x = 1;\n// caf\xe9\n',
    'x = 1',
    'x = 2',
    'x = 2;\n// caf\xe9\n',
  ],
  ['a byte order mark stays', '\xef\xbb\xbfa\r\n', '\ufeffa', 'b', '\xef\xbb\xbfb\r\n'],
  ['special characters are plain text', 'a.b $& (x)', 'a.b $& (x)', '$& $1 $$', '$& $1 $$'],
];

for (const [name, before, old_string, new_string, after] of EDITS) {
  test(name, async (t) => {
    const { call, write } = workspace(t);
    const file = write('f', Buffer.from(before, 'latin1'));
    const outcome = await call('edit_file', { path: 'f', old_string, new_string });
    assert.equal(outcome.isError, false, outcome.content);
    assert.equal(readFileSync(file, 'latin1'), after);
  });
}

const REFUSED: [name: string, before: string, args: Record<string, unknown>, message: RegExp][] = [
  [
    'C055 an ambiguous match gives the count',
    'dev:\n debug = True\nprod:\n debug = True\n',
    { old_string: ' debug = True', new_string: ' debug = False' },
    /occurs 2 times/,
  ],
  [
    'C055 overlapping places are ambiguous too',
    'aaa',
    { old_string: 'aa', new_string: 'b' },
    /occurs 2 times/,
  ],
  ['C055 both line endings count', 'a\nb a\r\nb', { old_string: 'a\nb', new_string: 'x' }, /occurs 2 times/],
  ['C056 an empty old string is an error', 'abc', { old_string: '', new_string: 'X' }, /old_string is empty/],
  [
    'C056 also with replace_all',
    'abc',
    { old_string: '', new_string: 'X', replace_all: true },
    /old_string is empty; write_file/,
  ],
  ['a text that is not there is an error', 'abc', { old_string: 'x', new_string: 'y' }, /not found/],
  ['an edit that changes nothing is an error', 'abc', { old_string: 'b', new_string: 'b' }, /the same/],
  [
    'C052 an edit that differs in line endings only changes nothing and says so',
    'a\nb\n',
    { old_string: 'a\nb', new_string: 'a\r\nb' },
    /changes nothing: line endings stay/,
  ],
  [
    'of several edits all or none are applied',
    'abc',
    {
      edits: [
        { old_string: 'a', new_string: 'A' },
        { old_string: 'z', new_string: 'Z' },
      ],
    },
    /edit 2 of 2: old_string was not found.*unchanged/,
  ],
];

for (const [name, before, args, message] of REFUSED) {
  test(name, async (t) => {
    const { call, write } = workspace(t);
    const file = write('f', before);
    const { mtimeMs, ino } = statSync(file);
    const outcome = await call('edit_file', { path: 'f', ...args });
    assert.equal(outcome.isError, true);
    assert.match(outcome.content, message);
    assert.equal(readFileSync(file, 'utf8'), before);
    assert.deepEqual([statSync(file).mtimeMs, statSync(file).ino], [mtimeMs, ino]);
  });
}

test('C056 a missing file is an error that points to write_file', async (t) => {
  const { call } = workspace(t);
  const outcome = await call('edit_file', { path: 'nope', old_string: '', new_string: 'X' });
  assert.equal(outcome.isError, true);
  assert.match(outcome.content, /nope: no such file.*write_file/);
  assert.equal((await call('glob', {})).content, '[no files match]');
});

test('edits are applied one after the other, and replace_all replaces side by side', async (t) => {
  const { call, write } = workspace(t);
  const file = write('f', 'one aaaa\r\n');
  const edits = [
    { old_string: 'one', new_string: 'two' },
    { old_string: 'two', new_string: 'three' },
    { old_string: 'aa', new_string: 'b', replace_all: true },
  ];
  assert.match((await call('edit_file', { path: 'f', edits })).content, /4 replacements/);
  assert.equal(readFileSync(file, 'utf8'), 'three bb\r\n');
});
