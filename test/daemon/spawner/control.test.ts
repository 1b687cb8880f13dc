// One djinnd per spawner, one spawner per state directory.
import assert from 'node:assert/strict';
import { spawn, spawnSync } from 'node:child_process';
import { once } from 'node:events';
import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { test } from 'node:test';
import { pino } from 'pino';
import { connectSpawner, SpawnerError } from '../../../daemon/spawner/client.ts';
import { startBench } from '../../support/spawner.ts';

const LOCK = join(import.meta.dirname, '../../../daemon/spawner/lock.ts');
const controlled = (error: unknown) => error instanceof SpawnerError && error.code === 'controlled';

async function client(socketPath: string) {
  const spawner = connectSpawner(socketPath, pino({ level: 'silent' }));
  await new Promise<void>((resolve) => spawner.on('up', resolve));
  return spawner;
}

test('while one client has control no other starts, steers or prunes jobs, and all may look', async (t) => {
  const bench = await startBench();
  t.after(() => bench.close());
  const first = await client(bench.spawner?.socketPath ?? '');
  const second = await client(bench.spawner?.socketPath ?? '');
  t.after(() => first.close());
  t.after(() => second.close());
  await first.call('control', {});
  await first.call('control', {});
  const ref = { jobId: 'job_none', attempt: 1 };
  await assert.rejects(second.call('control', {}), controlled);
  await assert.rejects(second.call('start', bench.params([])), controlled);
  await assert.rejects(second.call('go', ref), controlled);
  await assert.rejects(second.call('cancel', { ...ref, cause: 'cancelled' }), controlled);
  await assert.rejects(second.call('forget', ref), controlled);
  await assert.rejects(second.call('prune', { jobId: 'job_none' }), controlled);
  assert.deepEqual((await second.call('list', {})).attempts, []);
  assert.ok((await second.call('hello', {})).version);
  assert.deepEqual(await first.call('forget', ref), { known: false });
  first.close();
  for (;;) {
    const taken = await second.call('control', {}).then(
      () => true,
      () => false,
    );
    if (taken) break;
  }
  assert.deepEqual(await second.call('forget', ref), { known: false });
});

test('of many processes that lock a directory at once exactly one has it, and a killed one gives it back', async (t) => {
  const dir = mkdtempSync(join(tmpdir(), 'djinnd-lock-'));
  t.after(() => rmSync(dir, { recursive: true }));
  const script = `import { lockDirectory } from ${JSON.stringify(LOCK)};
    try { lockDirectory(${JSON.stringify(dir)}); console.log('mine'); setInterval(() => {}, 1000); }
    catch (error) { console.log(error.constructor.name); }`;
  const args = ['--input-type=module', '-e', script];
  for (let round = 0; round < 3; round += 1) {
    const all = Array.from({ length: 4 }, () => spawn(process.execPath, args));
    const words = await Promise.all(
      all.map(async (one) => String((await once(one.stdout, 'data'))[0]).trim()),
    );
    assert.deepEqual(words.sort(), ['SpawnerRunsError', 'SpawnerRunsError', 'SpawnerRunsError', 'mine']);
    for (const one of all) one.kill('SIGKILL');
    await Promise.all(all.map((one) => (one.signalCode ?? one.exitCode) === null && once(one, 'exit')));
  }
  const { stdout } = spawnSync(
    process.execPath,
    ['--input-type=module', '-e', script.replace('setInterval', '')],
    {
      encoding: 'utf8',
    },
  );
  assert.equal(stdout, 'mine\n');
});
