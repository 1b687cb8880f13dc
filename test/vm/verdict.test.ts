import assert from 'node:assert/strict';
import { test } from 'node:test';
import { crashedFiles, judge } from './verdict.ts';

const totals = (pass: number, fail: number, skipped: number, mark = 'ℹ'): string =>
  [
    'tests',
    pass + fail + skipped,
    'pass',
    pass,
    'fail',
    fail,
    'cancelled',
    0,
    'skipped',
    skipped,
  ].reduce<string>(
    (text, part, n) => (n % 2 === 0 ? `${text}${mark} ${part} ` : `${text}${part}\n`),
    '✔ a test\n',
  );

test('a guest that passed all is a success', () => {
  assert.deepEqual(judge(totals(3, 0, 1), 0), {
    ok: true,
    text: '4 tests: 3 passed, 0 failed, 0 cancelled, 1 skipped',
  });
  assert.equal(judge(totals(3, 0, 1, '#').replaceAll('\n', '\r\n'), 0).ok, true);
  assert.equal(judge(totals(3, 0, 1).replaceAll('ℹ', '\u001b[34mℹ'), 0).ok, true);
});

test('a failed test, a wrong status and skips alone are failures', () => {
  assert.equal(judge(totals(3, 1, 0), 1).ok, false);
  assert.equal(judge(totals(3, 1, 0), 0).ok, false);
  assert.equal(judge(totals(3, 0, 0), 1).ok, false);
  assert.equal(judge(totals(0, 0, 5), 0).ok, false);
});

test('a guest that says nothing is a failure, whatever its status', () => {
  for (const status of [0, 1, 124, 125, null]) assert.equal(judge('', status).ok, false);
  assert.match(judge('', 125).text, /did not start/);
  assert.match(judge('booted\n', 124).text, /ran out of time/);
});

test('only a process that died, or an emulator crash, is a reason to run its file again', () => {
  const failing = (...parts: string[]) => `✖ failing tests:\n\n${parts.join('\n\n')}\nℹ tests 1\n`;
  const died = "test at test/a.test.ts:1:1\n✖ test/a.test.ts (3034ms)\n  'test failed'";
  const crash =
    'test at test/b.test.ts:70:1\n✖ x (1ms)\n  # Check failed: it->second.Size() > offset.\n  null !== 0';
  const real = 'test at test/c.test.ts:9:1\n✖ y (1ms)\n  AssertionError: 1 !== 2';
  assert.deepEqual(crashedFiles(failing(died)), ['test/a.test.ts']);
  assert.deepEqual(crashedFiles(failing(crash, died)), ['test/b.test.ts', 'test/a.test.ts']);
  assert.equal(crashedFiles(failing(crash, real)), null);
  assert.equal(crashedFiles(failing(real)), null);
  assert.equal(crashedFiles('ℹ tests 3\nℹ pass 3\n'), null);
  assert.equal(crashedFiles(''), null);
});
