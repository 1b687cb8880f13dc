import assert from 'node:assert/strict';
import { spawn } from 'node:child_process';
import { createHash } from 'node:crypto';
import { once } from 'node:events';
import {
  chownSync,
  linkSync,
  lstatSync,
  mkdirSync,
  readdirSync,
  readFileSync,
  statSync,
  symlinkSync,
} from 'node:fs';
import { test } from 'node:test';
import { setTimeout as sleep } from 'node:timers/promises';
import { TOOLS } from '../../../worker/tools/index.ts';
import { readProcess } from '../../../worker/tools/process-table.ts';
import { workspace } from './support.ts';

test('C079 missing parents are made, a directory is an error, empty content makes an empty file', async (t) => {
  const { call, path } = workspace(t);
  assert.equal((await call('write_file', { path: 'a/b/c.txt', content: 'x' })).isError, false);
  assert.equal(readFileSync(path('a/b/c.txt'), 'utf8'), 'x');
  for (const name of ['a/b', '.', 'new/']) {
    const outcome = await call('write_file', { path: name, content: 'x' });
    assert.match(outcome.content, /directory/);
    assert.equal(outcome.isError, true);
  }
  await call('write_file', { path: 'empty', content: '' });
  assert.equal(statSync(path('empty')).size, 0);
  assert.match((await call('write_file', { path: 'empty/x', content: '' })).content, /not a directory/);
});

test('C058 mode and owner survive, a new file follows the umask, no temporary file stays', async (t) => {
  const { call, write, path, dir } = workspace(t);
  for (const mode of [0o755, 0o640, 0o600, 0o444]) {
    const file = write('f', 'old', mode);
    if (process.getuid?.() === 0) chownSync(file, 12345, 23456);
    const owner = statSync(file);
    for (const [tool, args] of [
      ['write_file', { path: 'f', content: 'middle' }],
      ['edit_file', { path: 'f', old_string: 'middle', new_string: 'new' }],
    ] as const) {
      const outcome = await call(tool, args);
      if (mode === 0o444 && process.getuid?.() !== 0) {
        assert.equal(outcome.isError, true);
        continue;
      }
      assert.equal(outcome.isError, false, outcome.content);
      const now = statSync(file);
      assert.deepEqual([now.mode, now.uid, now.gid], [owner.mode, owner.uid, owner.gid]);
    }
  }
  const umask = process.umask(0o022);
  await call('write_file', { path: 'new', content: '#!/bin/sh' });
  process.umask(umask);
  assert.equal(statSync(path('new')).mode & 0o777, 0o644);
  assert.deepEqual(readdirSync(dir).sort(), ['f', 'new']);
});

test('C146 a hard link is replaced, its other name keeps content, mode and owner', async (t) => {
  const { call, write, path } = workspace(t);
  const victim = write('victim', 'root only', 0o644);
  const before = statSync(victim);
  linkSync(victim, path('l'));
  await call('edit_file', { path: 'l', old_string: 'root', new_string: 'tenant' });
  await call('write_file', { path: 'l', content: 'tenant' });
  assert.equal(readFileSync(victim, 'utf8'), 'root only');
  assert.equal(readFileSync(path('l'), 'utf8'), 'tenant');
  const { mode, uid, gid, mtimeMs } = statSync(victim);
  assert.deepEqual([mode, uid, gid, mtimeMs], [before.mode, before.uid, before.gid, before.mtimeMs]);
});

test('a final link is written through and stays a link; one that leads nowhere is an error', async (t) => {
  const { call, write, path } = workspace(t);
  write('target', 'old');
  symlinkSync('target', path('link'));
  symlinkSync('nowhere', path('dangling'));
  await call('write_file', { path: 'link', content: 'new' });
  assert.equal(lstatSync(path('link')).isSymbolicLink(), true);
  assert.equal(readFileSync(path('target'), 'utf8'), 'new');
  assert.match(
    (await call('write_file', { path: 'dangling', content: 'x' })).content,
    /link to a missing file/,
  );
  assert.equal(readdirSync(path('.')).includes('nowhere'), false);
});

test('C079 C058 a kill in the middle of 20 MB leaves the old content or the new, and the next write sweeps', async (t) => {
  const { call, write, path, dir } = workspace(t);
  const old = 'o'.repeat(1000);
  const program = `import { TOOLS } from ${JSON.stringify(new URL('../../../worker/tools/index.ts', import.meta.url).href)};
    const tool = TOOLS.find((tool) => tool.name === 'write_file');
    const context = { cwd: ${JSON.stringify(dir)}, signal: new AbortController().signal, readOnly: false };
    const args = { path: 'f', content: 'n'.repeat(20e6) };
    process.stdout.write('ready');
    for (;;) { await tool.run({ path: 'f', content: ${JSON.stringify(old)} }, context); await tool.run(args, context); }`;
  const hashes = new Set(
    [old, 'n'.repeat(20e6)].map((text) => createHash('sha256').update(text).digest('hex')),
  );
  let leftovers = 0;
  for (let round = 0; round < 8; round++) {
    write('f', old);
    const child = spawn(process.execPath, ['--input-type=module', '-e', program], {
      stdio: ['ignore', 'pipe', 'inherit'],
    });
    await once(child.stdout, 'data');
    await sleep(10 + round * 13);
    child.kill('SIGKILL');
    await once(child, 'exit');
    assert.ok(
      hashes.has(
        createHash('sha256')
          .update(readFileSync(path('f')))
          .digest('hex'),
      ),
      'never a mixture',
    );
    leftovers += readdirSync(dir).length - 1;
  }
  t.diagnostic(`${leftovers} temporary files were left by 8 kills`);
  // A new worker sweeps what dead ones left, in each directory that it writes to.
  await call('write_file', { path: 'f', content: 'after' });
  assert.deepEqual(readdirSync(dir), ['f']);
});

test('C058 what a killed writer left is swept, what a living one writes is not', async (t) => {
  const { call, write, dir } = workspace(t);
  const own = readProcess(process.pid)?.startTicks;
  write(`.djinn-write-${process.pid}-${own}-999`, 'being written');
  write(`.djinn-write-${process.pid}-1-0`, 'of an earlier process with this pid');
  write('.djinn-write-4194304-1-0', 'of a dead process');
  await call('write_file', { path: 'f', content: '' });
  assert.deepEqual(readdirSync(dir).sort(), [`.djinn-write-${process.pid}-${own}-999`, 'f']);
  assert.equal((await call('glob', {})).content, 'f');
});

test('two edits of one file at once are both kept', async (t) => {
  const { call, write, path } = workspace(t);
  const count = 20;
  write('f', Array.from({ length: count }, (_, index) => `line ${index};\n`).join(''));
  await Promise.all(
    Array.from({ length: count }, (_, index) =>
      call('edit_file', { path: 'f', old_string: `line ${index};`, new_string: `done ${index};` }),
    ),
  );
  assert.equal(readFileSync(path('f'), 'utf8').match(/done/g)?.length, count);
});

test('the plan of a write names the hashes before and after, and changes nothing', async (t) => {
  const { call, write, path, context } = workspace(t);
  const plan = (name: string, args: Record<string, unknown>) =>
    TOOLS.find((tool) => tool.name === name)?.plan?.(args, context);
  const hash = (text: string) => createHash('sha256').update(text).digest('hex');
  assert.deepEqual(await plan('write_file', { path: 'f', content: 'new' }), {
    path: path('f'),
    before: null,
    after: hash('new'),
  });
  write('f', 'a\r\nb\r\n');
  const args = { path: 'f', old_string: 'a\nb', new_string: 'c\nd' };
  assert.deepEqual(await plan('edit_file', args), {
    path: path('f'),
    before: hash('a\r\nb\r\n'),
    after: hash('c\r\nd\r\n'),
  });
  await call('edit_file', args);
  assert.equal(hash(readFileSync(path('f'), 'utf8')), hash('c\r\nd\r\n'));
  assert.equal(await plan('edit_file', args), null);
  assert.equal(await plan('write_file', { path: '/etc/passwd', content: 'x' }), null);
});

test('C144 file tools stay inside the working directory and /tmp, links resolved', async (t) => {
  const { call, path } = workspace(t);
  const outside = workspace(t);
  outside.write('secret', 'canary');
  symlinkSync(outside.dir, path('dir'));
  symlinkSync(outside.path('secret'), path('file'));
  const reach = [outside.path('secret'), 'dir/secret', 'file', `../${outside.dir.split('/').at(-1)}/secret`];
  for (const name of reach) {
    for (const [tool, args] of [
      ['read_file', { path: name }],
      ['read_image', { path: name }],
      ['grep', { pattern: 'canary', path: name }],
      ['write_file', { path: name, content: 'x' }],
      ['edit_file', { path: name, old_string: 'canary', new_string: 'x' }],
    ] as const) {
      const outcome = await call(tool, args);
      assert.equal(outcome.isError, true, `${tool} ${name}`);
      assert.match(outcome.content, /outside the working directory/);
    }
  }
  assert.match((await call('write_file', { path: 'dir/new/f', content: 'x' })).content, /outside/);
  assert.match((await call('glob', { path: 'dir' })).content, /outside/);
  assert.equal((await call('grep', { pattern: 'canary' })).content, '[no lines match]');
  assert.deepEqual(readdirSync(outside.dir), ['secret']);
  assert.equal(readFileSync(outside.path('secret'), 'utf8'), 'canary');
  const inTmp = `/tmp/djinn-tools-${process.pid}`;
  assert.equal((await call('write_file', { path: inTmp, content: 'x' })).isError, false);
  await call('bash', { command: `rm ${inTmp}` });
});

test('C145 a parent that is swapped for a link during the calls never lets a file out', async (t) => {
  const { call, path, write } = workspace(t);
  const outside = workspace(t);
  write('placeholder', '');
  mkdirSync(path('d/e'), { recursive: true });
  mkdirSync(outside.path('e'));
  // As the shell loop of the report, but as fast as system calls go, or the window is hardly ever met.
  const program = `const { renameSync, rmSync, symlinkSync, unlinkSync } = require('node:fs');
    const attempt = (step) => { try { step(); return true; } catch { return false; } };
    for (;;) {
      // A write may have made its own d meanwhile.
      attempt(() => renameSync('d', 'real')) || attempt(() => rmSync('d', { recursive: true }));
      attempt(() => symlinkSync(${JSON.stringify(outside.dir)}, 'd'));
      attempt(() => unlinkSync('d'));
      attempt(() => renameSync('real', 'd'));
    }`;
  const swap = spawn(process.execPath, ['-e', program], { cwd: path('.'), stdio: 'ignore' });
  try {
    let written = 0;
    for (let round = 0; round < 2000; round++) {
      const outcome = await call('write_file', {
        path: round % 2 === 0 ? 'd/f' : 'd/e/f',
        content: `${round}`,
      });
      if (!outcome.isError) written++;
      assert.deepEqual(readdirSync(outside.dir, { recursive: true }), ['e']);
    }
    t.diagnostic(`${written} of 2000 writes succeeded`);
    assert.ok(written > 0);
  } finally {
    swap.kill('SIGKILL');
    await once(swap, 'exit');
  }
});
