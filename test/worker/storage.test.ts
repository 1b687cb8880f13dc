import assert from 'node:assert/strict';
import { execFileSync } from 'node:child_process';
import { mkdirSync } from 'node:fs';
import { join } from 'node:path';
import { test } from 'node:test';
import { contentChunk, startFakeOpenAI, toolCallChunk } from '../../worker/index.ts';
import { makeFolder, runWorker, terminal } from './worker-process.ts';

test('C049: a full disk ends the run with a storage error, and with room again the session goes on', async (t) => {
  const home = makeFolder(t);
  const small = join(home, 'home');
  mkdirSync(small);
  try {
    execFileSync('mount', ['-t', 'tmpfs', '-o', 'size=256k', 'none', small], { stdio: 'ignore' });
  } catch {
    t.skip('needs to mount a tmpfs (root)');
    return;
  }
  const fake = await startFakeOpenAI(({ index }) => ({
    sse:
      index < 12
        ? [contentChunk('x'.repeat(40_000)), toolCallChunk('glob', { pattern: '*' })]
        : [contentChunk('ok')],
  }));
  try {
    const options = { home: small, cwd: home, baseUrl: fake.baseUrl };
    const full = await runWorker(t, ['-p', 'x', '--session-id', 's'], options);
    const last = terminal(full.events);
    assert.deepEqual([full.code, last.type === 'error' ? last.code : last], [1, 'storage']);
    execFileSync('mount', ['-o', 'remount,size=8m', small]);
    const again = await runWorker(t, ['-p', 'go on', '--session-id', 's'], options);
    assert.equal(terminal(again.events).type, 'done');
    assert.ok(fake.requests.every((request) => request.problems.length === 0));
    assert.ok(JSON.stringify(fake.requests.at(-1)?.body).includes('x'.repeat(40_000)));
  } finally {
    // Not by `t.after`: the folder's own hook runs first.
    await fake.stop();
    execFileSync('umount', [small]);
  }
});
