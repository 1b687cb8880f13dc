import assert from 'node:assert/strict';
import { execFileSync } from 'node:child_process';
import { mkdirSync, symlinkSync, truncateSync } from 'node:fs';
import { test } from 'node:test';
import { workspace } from './support.ts';

for (const pattern of ['-77', '--help', '->', '-e x', '-- ']) {
  test(`C059 the pattern ${JSON.stringify(pattern)} is no flag`, async (t) => {
    const { call, write } = workspace(t);
    write('f', 'first\n-77\n--help\n->\n-e x\n-- \n');
    const line = ['-77', '--help', '->', '-e x', '-- '].indexOf(pattern) + 2;
    assert.equal((await call('grep', { pattern })).content, `f:${line}:${pattern}`);
    write('-rf', `${pattern}\n`);
    assert.equal((await call('grep', { pattern, path: '-rf', literal: true })).content, `-rf:1:${pattern}`);
  });
}

test('C059 names that look like flags are names for every tool', async (t) => {
  const { call, write } = workspace(t);
  write('-rf', '--help\n');
  assert.equal((await call('read_file', { path: '-rf' })).content, '--help\n');
  assert.equal((await call('edit_file', { path: '-rf', old_string: '--', new_string: '++' })).isError, false);
  assert.equal((await call('write_file', { path: '--help', content: '++x\n' })).isError, false);
  assert.equal((await call('glob', { pattern: '-*' })).content, '--help\n-rf');
  assert.equal((await call('grep', { pattern: '++', literal: true, glob: '-*f' })).content, '-rf:1:++help');
});

test('C061 a pattern that backtracks for ever ends within its limit, blocks nothing, and the next search works', async (t) => {
  const { call, write } = workspace(t);
  write('a-good', 'aa\n');
  write('evil', `${'a'.repeat(40)}!\n`);
  let longestPauseMs = 0;
  let lastMs = Date.now();
  const pulse = setInterval(() => {
    longestPauseMs = Math.max(longestPauseMs, Date.now() - lastMs);
    lastMs = Date.now();
  }, 10);
  const startMs = Date.now();
  const outcome = await call('grep', { pattern: '(a+)+$' });
  clearInterval(pulse);
  assert.ok(Date.now() - startMs < 10_000);
  assert.ok(longestPauseMs < 500, `the event loop stood still for ${longestPauseMs} ms`);
  assert.equal(outcome.isError, true);
  assert.match(outcome.content, /^a-good:1:aa\n/);
  assert.match(outcome.content, /needs more than 5 s/);
  assert.equal((await call('grep', { pattern: 'a!' })).content, `evil:1:${'a'.repeat(40)}!`);
});

test('C061 a slow pattern over much text is bounded', async (t) => {
  const { call, write } = workspace(t);
  write('f', 'lorem ipsum dolor '.repeat(20_000));
  const startMs = Date.now();
  await call('grep', { pattern: '[a-z ]{0,90}TOKEN[a-z ]{0,90}' });
  assert.ok(Date.now() - startMs < 10_000);
});

test('C061 an invalid pattern and one of 1 MB are refused with a clear message', async (t) => {
  const { call, write } = workspace(t);
  write('f', '(\n');
  const invalid = await call('grep', { pattern: '(' });
  assert.equal(invalid.isError, true);
  assert.match(invalid.content, /pattern is not valid: .*Unterminated group/);
  assert.equal((await call('grep', { pattern: '(', literal: true })).content, 'f:1:(');
  assert.match(
    (await call('grep', { pattern: 'a'.repeat(1e6) })).content,
    /pattern is too long: 1000000 characters/,
  );
});

test('a cancelled search ends at once', async (t) => {
  const { call, write } = workspace(t);
  write('evil', `${'a'.repeat(40)}!\n`);
  const controller = new AbortController();
  setTimeout(() => controller.abort(), 300);
  const startMs = Date.now();
  const outcome = await call('grep', { pattern: '(a+)+$' }, { signal: controller.signal });
  assert.ok(Date.now() - startMs < 2000);
  assert.deepEqual(outcome, { content: '[no lines match]\ngrep: cancelled', isError: true });
});

test('C062 links that loop are not followed', async (t) => {
  const { call, write, path } = workspace(t);
  mkdirSync(path('sub'));
  symlinkSync('.', path('sub/sub'));
  symlinkSync('..', path('sub/up'));
  symlinkSync('/', path('sub/root'));
  write('sub/f', 'x\n');
  symlinkSync('f', path('sub/link'));
  const startMs = Date.now();
  assert.equal((await call('glob', { pattern: '**/f' })).content, 'sub/f');
  assert.equal((await call('glob', { pattern: '**' })).content, 'sub/f\nsub/link');
  assert.equal((await call('grep', { pattern: 'x', glob: 'f' })).content, 'sub/f:1:x');
  assert.equal((await call('glob', { path: 'sub/root' })).isError, true);
  assert.ok(Date.now() - startMs < 2000);
});

test('C062 links that lead to each other, a FIFO and a socket stop no search', async (t) => {
  const { call, write, path } = workspace(t);
  symlinkSync('b', path('a'));
  symlinkSync('a', path('b'));
  execFileSync('mkfifo', [path('fifo')]);
  write('f', 'x\n');
  assert.equal((await call('glob', {})).content, 'f');
  assert.equal((await call('grep', { pattern: 'x' })).content, 'f:1:x');
  assert.equal((await call('grep', { pattern: 'x', path: 'a' })).isError, true);
  assert.match((await call('grep', { pattern: 'x', path: 'fifo' })).content, /could not be read: 1/);
  assert.match((await call('read_file', { path: 'a' })).content, /too many symbolic links/);
});

test('lines are numbered over blocks, CRLF is no part of them, binary files are left out and counted', async (t) => {
  const { call, write, path } = workspace(t);
  const filler = `${'y'.repeat(999)}\r\n`;
  write('big', `${filler.repeat(9000)}needle here\r\n${filler.repeat(9000)}needle there`);
  write('binary', 'needle\0');
  write('hole', '');
  truncateSync(path('hole'), 8e9);
  assert.equal(
    (await call('grep', { pattern: '^needle \\w+$' })).content,
    'big:9001:needle here\nbig:18002:needle there\n[binary files left out: 2]',
  );
});

test('the list is bounded in lines, in bytes and per line, and says so', async (t) => {
  const { call, write } = workspace(t);
  write('f', 'hit\n'.repeat(300));
  const few = (await call('grep', { pattern: 'hit', limit: 300 })).content;
  assert.equal(few.split('\n').length, 300);
  assert.match(
    (await call('grep', { pattern: 'HIT', ignore_case: true })).content,
    /\n\[only the first 200 lines are listed/,
  );
  write('f', `${'x'.repeat(399)}🏷${'x'.repeat(600)}\n`.repeat(500));
  const { content } = await call('grep', { pattern: 'x', limit: 2000 });
  assert.match(content, /^f:1:x{399}… \[602 more characters\]\n/);
  assert.ok(Buffer.byteLength(content) <= 50 * 1024 + 100);
});
