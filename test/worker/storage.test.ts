import assert from 'node:assert/strict';
import { execFileSync } from 'node:child_process';
import { mkdirSync } from 'node:fs';
import { join } from 'node:path';
import { contentChunk, toolCallChunk } from '../../worker/index.ts';
import { verifyLog } from '../../worker/replay/verify.ts';
import { withLog } from '../../worker/session/log-file.ts';
import { setScene, testBoth } from './providers.ts';
import { makeFolder, terminal } from './worker-process.ts';

testBoth(
  'C049: a full disk ends the run with a storage error, and with room again the session goes on',
  async (t, provider) => {
    const cwd = makeFolder(t);
    const home = join(cwd, 'home');
    mkdirSync(home);
    try {
      execFileSync('mount', ['-t', 'tmpfs', '-o', 'size=256k', 'none', home], { stdio: 'ignore' });
    } catch {
      t.skip('needs to mount a tmpfs (root)');
      return;
    }
    try {
      const scene = await setScene(
        t,
        provider,
        ({ index }) => ({
          sse:
            index < 12
              ? [contentChunk('x'.repeat(40_000)), toolCallChunk('glob', { pattern: '*' })]
              : [contentChunk('ok')],
        }),
        { home },
      );
      const full = await scene.run({ prompt: 'x', cwd });
      const last = terminal(full.events);
      assert.deepEqual([full.code, last.type === 'error' ? last.code : last], [1, 'storage']);
      execFileSync('mount', ['-o', 'remount,size=8m', home]);
      const again = await scene.run({ prompt: 'go on', cwd });
      assert.equal(terminal(again.events).type, 'done');
      const { requests } = scene.fake;
      assert.ok(requests.every((request) => request.problems.length === 0));
      assert.ok(JSON.stringify(requests.at(-1)?.body).includes('x'.repeat(40_000)));
      assert.deepEqual(withLog(scene.log, verifyLog).problems, []);
      await scene.fake.stop();
    } finally {
      // Not by `t.after`: the folder's own hook runs first.
      execFileSync('umount', [home]);
    }
  },
);
