// The lock of an instance's directory.
import assert from 'node:assert/strict';
import { spawnSync } from 'node:child_process';
import { existsSync, mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterEach, beforeEach, test } from 'node:test';
import { isLocked, takeLock } from '../../../daemon/parent/lock.ts';

let dir: string;
beforeEach(() => {
  dir = mkdtempSync(join(tmpdir(), 'djinnd-lock-'));
});
afterEach(() => rmSync(dir, { recursive: true, force: true }));

const takeElsewhere = (): string =>
  spawnSync(
    process.execPath,
    [
      '-e',
      `import('${import.meta.dirname}/../../../daemon/parent/lock.ts').then(({ takeLock }) => console.log(takeLock('${dir}') !== null))`,
    ],
    { encoding: 'utf8' },
  ).stdout.trim();

test('one process holds it; the same process may take it again; others are refused', () => {
  const lock = takeLock(dir);
  assert.ok(lock !== null && isLocked(dir));
  assert.ok(takeLock(dir) !== null);
  assert.equal(takeElsewhere(), 'false');
  lock.release();
  assert.equal(isLocked(dir), false);
  assert.equal(takeElsewhere(), 'true');
});

test('the lock of a dead process, of a reused pid, of an earlier boot, and a torn file are all taken over', () => {
  assert.equal(takeElsewhere(), 'true'); // dead by now
  assert.equal(isLocked(dir), false);
  for (const content of [`${process.pid} 1 another-boot`, `1 0 ${'0'.repeat(36)}`, '', 'garbage']) {
    writeFileSync(join(dir, 'start.lock'), content);
    assert.equal(isLocked(dir), false);
    takeLock(dir)?.release();
    assert.equal(existsSync(join(dir, 'start.lock')), false);
  }
});
