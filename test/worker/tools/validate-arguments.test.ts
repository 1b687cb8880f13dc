import assert from 'node:assert/strict';
import { test } from 'node:test';
import { workspace } from './support.ts';

test('C016 a tool with only optional parameters runs with {}, a missing required one is named', async (t) => {
  const { call, write } = workspace(t);
  write('a.txt', 'a');
  assert.deepEqual(await call('glob', {}), { content: 'a.txt', isError: false });
  const missing = await call('read_file', {});
  assert.equal(missing.isError, true);
  assert.match(missing.content, /path is missing/);
});

const WRONG: [string, Record<string, unknown>, RegExp][] = [
  ['read_file', { path: 7 }, /path must be a string/],
  ['read_file', { path: '' }, /path must not be empty/],
  ['read_file', { path: 'a', lines: 3 }, /lines is not known; allowed are path, offset, limit/],
  ['read_file', { path: null }, /path must be a string/],
  ['read_file', { path: 'a\0b' }, /NUL/],
  ['edit_file', { path: 'a' }, /old_string is missing/],
  ['edit_file', { path: 'a', edits: [{ old_string: 'x' }] }, /edits\[0\]\.new_string is missing/],
  ['edit_file', { path: 'a', edits: [] }, /at least 1/],
  [
    'edit_file',
    { path: 'a', old_string: 'a', new_string: 'b', edits: [{ old_string: 'x', new_string: 'y' }] },
    /not both/,
  ],
  ['bash', { command: 'true', timeout_seconds: 0 }, /at least 1/],
  ['bash', { command: 'true', timeout_seconds: 1e9 }, /at most 3600/],
  ['bash', { command: 'x'.repeat(200_000) }, /longer than 128 KiB/],
  ['grep', { pattern: 'x', literal: 'yes' }, /literal must be true or false/],
  ['write_file', { path: 'a', content: 'half \ud83d pair' }, /half a surrogate pair/],
  ['write_file', { path: 'a', content: JSON.parse('{"__proto__":"x"}') }, /content must be a string/],
];

for (const [tool, args, expected] of WRONG) {
  test(`C016 ${tool} refuses ${JSON.stringify(args).slice(0, 60)} with a message that names the field`, async (t) => {
    const { call } = workspace(t);
    const outcome = await call(tool, args);
    assert.equal(outcome.isError, true);
    assert.match(outcome.content, expected);
  });
}

test('a call that was cancelled before it starts does nothing', async (t) => {
  const { call, path } = workspace(t);
  const outcome = await call('bash', { command: `touch ${path('made')}` }, { signal: AbortSignal.abort() });
  assert.equal(outcome.isError, true);
  assert.equal((await call('glob', {})).content, '[no files match]');
});
