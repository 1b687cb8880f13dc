import assert from 'node:assert/strict';
import { execFileSync } from 'node:child_process';
import { existsSync, mkdirSync, mkdtempSync, readFileSync, rmSync, statSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { after, test } from 'node:test';
import { setTimeout as sleep } from 'node:timers/promises';
import { cutTornTail } from '../../../daemon/spawner/disk.ts';
import { createSpool, removeSpools, reopenSpool, SpoolFailed } from '../../../daemon/spawner/spool.ts';

const dir = mkdtempSync(join(tmpdir(), 'djinnd-spool-'));
after(() => rmSync(dir, { recursive: true, force: true }));

const seqOf = (line: string): number | null => {
  try {
    return JSON.parse(line).seq ?? null;
  } catch {
    return null;
  }
};
const line = (seq: number, text = 'x') => Buffer.from(`${JSON.stringify({ seq, text })}\n`);

test('appends are kept in order and the closing line comes last', async () => {
  const path = join(dir, 'order.ndjson');
  const spool = createSpool({ path, gid: null });
  const all = Array.from({ length: 500 }, (_, index) => spool.append(line(index + 1), index + 1));
  await spool.seal((seq) => line(seq + 1, 'end'));
  await Promise.all(all);
  const lines = readFileSync(path, 'utf8').trimEnd().split('\n');
  assert.deepEqual(
    lines.map((text) => JSON.parse(text).seq),
    Array.from({ length: 501 }, (_, index) => index + 1),
  );
  assert.equal(statSync(path).mode & 0o777, 0o640);
});

test('a spool is made once only', () => {
  const path = join(dir, 'once.ndjson');
  createSpool({ path, gid: null }).close();
  assert.throws(() => createSpool({ path, gid: null }), { code: 'EEXIST' });
});

test('a torn tail is cut at every byte, and what follows continues the numbering', async () => {
  const whole = Buffer.concat([line(1), line(2, 'é\u2028'), line(3, 'last')]);
  const path = join(dir, 'torn.ndjson');
  for (let cut = 0; cut <= whole.length; cut += 1) {
    writeFileSync(path, whole.subarray(0, cut));
    const kept = whole.subarray(0, cut).lastIndexOf(10) + 1;
    const tail = cutTornTail(path, seqOf);
    assert.equal(tail.bytes, kept, `cut at ${cut}`);
    assert.equal(tail.last, kept === 0 ? null : whole.subarray(0, kept).toString().split('\n').length - 1);
    const spool = reopenSpool({ path, bytes: tail.bytes, lastSeq: tail.last ?? 0 });
    await spool.seal((seq) => line(seq + 1, 'end'));
    const lines = readFileSync(path, 'utf8')
      .trimEnd()
      .split('\n')
      .map((text) => JSON.parse(text));
    assert.deepEqual(
      lines.map(({ seq }) => seq),
      lines.map((_, index) => index + 1),
    );
    assert.equal(lines.at(-1).text, 'end');
  }
});

test('lines that a lost write left as zeros or garbage are cut, however long', () => {
  const path = join(dir, 'zeros.ndjson');
  const good = line(1, 'y'.repeat(200_000));
  for (const bad of [
    Buffer.alloc(4096),
    Buffer.from('garbage\n'),
    Buffer.from('\n\n'),
    Buffer.from(`${'z'.repeat(300_000)}\n`),
  ]) {
    writeFileSync(path, Buffer.concat([good, bad]));
    assert.deepEqual(cutTornTail(path, seqOf), { bytes: good.length, last: 1 });
    assert.equal(statSync(path).size, good.length);
  }
});

test('the spools of a job are removed with their directory', async () => {
  const job = join(dir, 'job_x');
  mkdirSync(job);
  writeFileSync(join(job, '1.ndjson'), 'x');
  assert.equal(await removeSpools(job), true);
  assert.equal(existsSync(job), false);
  assert.equal(await removeSpools(job), false);
});

test('a full disk: whole lines only, no line after the gap, and the closing line as soon as there is room', async (t) => {
  const small = join(dir, 'small');
  mkdirSync(small);
  try {
    execFileSync('mount', ['-t', 'tmpfs', '-o', 'size=64k', 'tmpfs', small], { stdio: 'pipe' });
  } catch {
    return t.skip('cannot mount a tmpfs');
  }
  try {
    const path = join(small, '1.ndjson');
    const ballast = join(small, 'ballast');
    writeFileSync(ballast, Buffer.alloc(32 * 1024));
    let retries = 0;
    const spool = createSpool({ path, gid: null, retryMs: 10, onRetry: () => (retries += 1) });
    let stored = 0;
    const failure = await (async () => {
      for (let seq = 1; ; seq += 1) {
        try {
          await spool.append(line(seq, 'x'.repeat(700)), seq);
          stored = seq;
        } catch (error) {
          return error;
        }
      }
    })();
    assert.ok(failure instanceof SpoolFailed && failure.errno === 'ENOSPC');
    // A page may have room for a short line; the spool must not take it.
    await assert.rejects(spool.append(line(stored + 2), stored + 2), SpoolFailed);
    const sealing = spool.seal((seq) => line(seq + 1, 'e'.repeat(3000)));
    await sleep(100);
    assert.ok(retries > 3);
    rmSync(ballast);
    await sealing;
    const lines = readFileSync(path, 'utf8')
      .trimEnd()
      .split('\n')
      .map((text) => JSON.parse(text));
    assert.deepEqual(
      lines.map(({ seq }) => seq),
      Array.from({ length: stored + 1 }, (_, index) => index + 1),
    );
  } finally {
    execFileSync('umount', [small]);
  }
});
