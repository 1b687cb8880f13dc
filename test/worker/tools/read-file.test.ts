import assert from 'node:assert/strict';
import { execFileSync } from 'node:child_process';
import { truncateSync } from 'node:fs';
import { test } from 'node:test';
import { workspace } from './support.ts';

const RANGES: [string, unknown, unknown, string | RegExp, boolean][] = [
  ['a\nb\nc\n', 1, 3, 'a\nb\nc\n', false],
  ['a\nb\nc', 1, 3, 'a\nb\nc', false],
  ['a\nb\nc\n', 3, 1, 'c\n', false],
  ['a\nb\nc', 3, 1, 'c', false],
  ['a\nb\nc\n', 1, 2, 'a\nb\n[more lines follow; go on with offset 3]', false],
  ['a\nb\nc', 2, 1, 'b\n[more lines follow; go on with offset 3]', false],
  ['a\nb\nc\n', 4, 1, '[line 4 is past the end: f has 3 lines]', false],
  ['a\nb\nc', 1200, 200, '[line 1200 is past the end: f has 3 lines]', false],
  ['', 1, 3, '[f is empty]', false],
  ['', 2, 3, '[line 2 is past the end: f has 0 lines]', false],
  ['\n', 1, 1, '\n', false],
  ['a\nb\nc', 0, 1, /offset must be at least 1/, true],
  ['a\nb\nc', -1, 1, /offset must be at least 1/, true],
  ['a\nb\nc', 1, 0, /limit must be at least 1/, true],
  ['a\nb\nc', 1, -1, /limit must be at least 1/, true],
  ['a\nb\nc', 1.5, 1, /offset must be a whole number/, true],
  ['a\nb\nc', '2', 1, /offset must be a whole number/, true],
];

for (const [content, offset, limit, expected, isError] of RANGES) {
  test(`C064 read_file of ${JSON.stringify(content)} from ${offset}, ${limit} lines`, async (t) => {
    const { call, write } = workspace(t);
    write('f', content);
    const outcome = await call('read_file', { path: 'f', offset, limit });
    assert.equal(outcome.isError, isError);
    if (typeof expected === 'string') assert.equal(outcome.content, expected);
    else assert.match(outcome.content, expected);
  });
}

test('C064 reading a file piece by piece loses and doubles no line', async (t) => {
  const { call, write } = workspace(t);
  const lines = Array.from({ length: 9000 }, (_, index) => `${index} ${'é'.repeat(index % 90)}`);
  write('f', lines.join('\n'));
  let text = '';
  for (let offset: number | null = 1; offset !== null; ) {
    const { content }: { content: string } = await call('read_file', { path: 'f', offset });
    const note: RegExpExecArray | null = /\n?\[[^\]\n]*go on with offset (\d+)\]$/.exec(content);
    text += note === null ? content : `${content.slice(0, note.index)}\n`;
    offset = note === null ? null : Number(note[1]);
  }
  assert.equal(text, lines.join('\n'));
});

test('C065 two lines of a 4 GiB file take no time and no memory', async (t) => {
  const { call, write, path } = workspace(t);
  write('big', 'l1\nl2\n');
  truncateSync(path('big'), 4 * 1024 ** 3);
  const rssBefore = process.memoryUsage.rss();
  const startMs = Date.now();
  const { content } = await call('read_file', { path: 'big', offset: 1, limit: 2 });
  assert.match(content, /^l1\nl2\n\[more lines follow/);
  assert.ok(Date.now() - startMs < 2000);
  assert.ok(process.memoryUsage.rss() - rssBefore < 100e6);
});

test('C080 41 kB are whole, 60 kB are cut after the last line that fits in 50 KiB', async (t) => {
  const { call, write } = workspace(t);
  const line = `${'x'.repeat(199)}\n`;
  write('small', line.repeat(205));
  assert.equal((await call('read_file', { path: 'small' })).content, line.repeat(205));
  write('large', line.repeat(300));
  assert.equal(
    (await call('read_file', { path: 'large' })).content,
    `${line.repeat(256)}[cut at 50 KiB; go on with offset 257]`,
  );
});

test('C043 a line that is cut inside a code point is cut before it', async (t) => {
  const { call, write } = workspace(t);
  for (let length = 50 * 1024 - 4; length <= 50 * 1024 + 1; length++) {
    write('f', `${'x'.repeat(length)}🏷${'y'.repeat(10)}`);
    const { content } = await call('read_file', { path: 'f' });
    assert.equal(content.includes('\ufffd'), false);
    assert.match(content, /\[line 1 is longer than 50 KiB/);
  }
});

test('bytes that are not UTF-8 are shown lossily and a byte order mark is not', async (t) => {
  const { call, write } = workspace(t);
  write('latin1', Buffer.from('caf\xe9\n', 'latin1'));
  assert.equal((await call('read_file', { path: 'latin1' })).content, 'caf\ufffd\n');
  write('bom', '\ufefftext');
  assert.equal((await call('read_file', { path: 'bom' })).content, 'text');
});

test('a binary file is refused with what to do; text with a stray NUL, and the text before a hole, are not', async (t) => {
  const { call, write, path } = workspace(t);
  const png = Buffer.from('89504e470d0a1a0a0000000d49484452000000010000000108060000001f15c489', 'hex');
  for (const [name, bytes, expected] of [
    ['picture', png, /picture is a binary file: use read_image/],
    ['program', Buffer.from('7f454c4602010100000000000000000003003e0001000000', 'hex'), /is a binary file/],
    ['utf16', Buffer.from('\ufeffhello\n', 'utf16le'), /is UTF-16; convert it with iconv/],
    ['zeros', Buffer.alloc(100_000), /is a binary file/],
  ] as const) {
    write(name, bytes);
    const outcome = await call('read_file', { path: name });
    assert.equal(outcome.isError, true, name);
    assert.match(outcome.content, expected);
  }
  write('log', 'one line\n\0another line\n');
  assert.deepEqual(await call('read_file', { path: 'log' }), {
    content: 'one line\n\0another line\n',
    isError: false,
  });
  write('hole', 'l1\nl2\n');
  truncateSync(path('hole'), 1e6);
  assert.match((await call('read_file', { path: 'hole', limit: 2 })).content, /^l1\nl2\n\[more/);
});

test('a FIFO, a directory and a missing file are errors, at once', async (t) => {
  const { call, path } = workspace(t);
  execFileSync('mkfifo', [path('fifo')]);
  for (const [name, expected] of [
    ['fifo', /not a regular file/],
    ['.', /is a directory/],
    ['nope', /nope: no such file/],
  ] as const) {
    const outcome = await call('read_file', { path: name });
    assert.equal(outcome.isError, true);
    assert.match(outcome.content, expected);
  }
});
