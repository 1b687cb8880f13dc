// Which attempts may start, and who finds them again.
import assert from 'node:assert/strict';
import { execFileSync } from 'node:child_process';
import { mkdirSync, rmSync, statSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { test } from 'node:test';
import { setTimeout as sleep } from 'node:timers/promises';
import { pino } from 'pino';
import { connectSpawner, SpawnerError } from '../../../daemon/spawner/client.ts';
import { benchForFile, DONE, endOf } from '../../support/attempts.ts';
import { makeDirs, startBench } from '../../support/spawner.ts';

const bench = benchForFile();

test('a session runs one job at a time', async () => {
  const params = await bench().begin([{ sleepMs: 60_000 }], { sessionId: 'one' });
  const second = bench().params([], { sessionId: 'one' });
  const busy = (error: unknown) => error instanceof SpawnerError && error.code === 'session_busy';
  await assert.rejects(bench().client.call('start', second), busy);
  await bench().client.call('cancel', { jobId: params.jobId, attempt: 1, cause: 'cancelled' });
  await bench().finish(params);
  await bench().client.call('start', second);
  await bench().client.call('cancel', { jobId: second.jobId, attempt: 1, cause: 'cancelled' });
  await bench().finish(second);
});

test('an attempt starts once, a forgotten one never, an unknown engine not at all', async () => {
  const refused = (code: string) => (error: unknown) => error instanceof SpawnerError && error.code === code;
  const params = bench().params([DONE]);
  const ref = { jobId: params.jobId, attempt: 1 };
  const [one, two] = await Promise.allSettled([
    bench().client.call('start', params),
    bench().client.call('start', params),
  ]);
  assert.deepEqual([one.status, two.status], ['fulfilled', 'rejected']);
  assert.deepEqual(await bench().client.call('forget', ref), { known: true });
  await assert.rejects(bench().client.call('prune', { jobId: params.jobId }), refused('already_started'));
  await bench().client.call('go', ref);
  await bench().client.call('go', ref);
  await bench().finish(params);
  await bench().client.call('go', ref);
  await assert.rejects(bench().client.call('start', params), refused('already_started'));
  assert.deepEqual(await bench().client.call('prune', { jobId: params.jobId }), { pruned: true });
  assert.deepEqual(await bench().client.call('prune', { jobId: params.jobId }), { pruned: false });

  const late = bench().params([]);
  assert.deepEqual(await bench().client.call('forget', { jobId: late.jobId, attempt: 1 }), { known: false });
  await assert.rejects(bench().client.call('start', late), refused('forgotten'));
  await assert.rejects(
    bench().client.call('go', { jobId: late.jobId, attempt: 1 }),
    refused('unknown_attempt'),
  );
  await assert.rejects(
    bench().client.call('start', bench().params([], { engine: 'nope' })),
    refused('unknown_engine'),
  );
});

test('a client that is restarted finds its jobs waiting and running, and goes on', async () => {
  const waiting = bench().params([DONE]);
  const { gatewayDir } = await bench().client.call('start', waiting);
  const running = await bench().begin([{ sleepMs: 1000 }, DONE]);
  await bench().seen(running, ({ state }) => state === 'running');
  const next = connectSpawner(join(bench().dirs.runDir, 'spawner.sock'), pino({ level: 'silent' }));
  await new Promise<void>((resolve) => next.on('up', resolve));
  const { attempts } = await next.call('list', {});
  const states = Object.fromEntries(attempts.map(({ jobId, state }) => [jobId, state]));
  assert.deepEqual(states, { [waiting.jobId]: 'waiting', [running.jobId]: 'running' });
  assert.equal(attempts.find(({ jobId }) => jobId === waiting.jobId)?.gatewayDir, gatewayDir);
  await next.call('go', { jobId: waiting.jobId, attempt: 1 });
  await next.call('go', { jobId: running.jobId, attempt: 1 });
  next.close();
  for (const params of [waiting, running]) assert.equal(endOf(await bench().finish(params)).outcome, 'ok');
});

test('a job whose events find no room ends as failed, and its end is written as soon as there is some', async (t) => {
  const dirs = makeDirs();
  mkdirSync(dirs.stateDir);
  try {
    execFileSync('mount', ['-t', 'tmpfs', '-o', 'size=2m', 'tmpfs', dirs.stateDir], { stdio: 'pipe' });
  } catch {
    rmSync(dirs.root, { recursive: true });
    return t.skip('cannot mount a tmpfs');
  }
  const full = await startBench({ cgroupRoot: null }, dirs);
  try {
    const ballast = join(dirs.stateDir, 'ballast');
    writeFileSync(ballast, Buffer.alloc(1024 * 1024));
    const params = await full.begin([
      { flood: { bytes: 4_000_000, lineBytes: 1000 } },
      DONE,
      { sleepMs: 200 },
    ]);
    // The last page may hold a short end; fill it.
    for (let n = 0; n < 500 && statSync(full.spool(params)).size < 900_000; n += 1) await sleep(10);
    await sleep(300);
    rmSync(ballast);
    const lines = await full.finish(params);
    const end = endOf(lines);
    assert.deepEqual([end.outcome, end.cause.code, end.cause.errno], ['failed', 'spool_full', 'ENOSPC']);
    assert.ok(lines.length > 500);
  } finally {
    await full.spawner?.close();
    execFileSync('umount', [dirs.stateDir]);
    await full.close();
  }
});

test('strict mode on a machine that lacks a required control refuses and says why', async (t) => {
  const strict = await startBench({ enforcement: 'strict', cgroupRoot: null });
  try {
    const { enforcement } = await strict.client.call('hello', {});
    if (!enforcement.refused) return t.skip('every required control is full here');
    await assert.rejects(
      strict.client.call('start', strict.params([])),
      (error) =>
        error instanceof SpawnerError && error.code === 'enforcement' && /memory is none/.test(error.message),
    );
  } finally {
    await strict.close();
  }
});
