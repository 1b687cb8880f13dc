import assert from 'node:assert/strict';
import { type ChildProcess, spawn } from 'node:child_process';
import { once } from 'node:events';
import { existsSync, readdirSync, readFileSync, rmdirSync } from 'node:fs';
import { join } from 'node:path';
import { after, test } from 'node:test';
import { setTimeout as sleep } from 'node:timers/promises';
import { fileURLToPath } from 'node:url';
import { alive, DONE, token } from '../../support/attempts.ts';
import { makeDirs, SpawnerBench, testCgroup } from '../../support/spawner.ts';

const PROGRAM = fileURLToPath(new URL('../../support/spawner-process.ts', import.meta.url));
const cgroupRoot = testCgroup();
const dirs = makeDirs();
const bench = new SpawnerBench(dirs, null);
let running: ChildProcess | null = null;

after(async () => {
  await stop('SIGKILL');
  await bench.close();
  if (cgroupRoot === null) return;
  for (const name of ['jobs', 'supervisor', '']) rmdirSync(join(cgroupRoot, name));
});

async function startSpawner(): Promise<void> {
  running = spawn(process.execPath, [PROGRAM, JSON.stringify({ ...dirs, cgroupRoot })], {
    stdio: ['ignore', 'pipe', 'inherit'],
  });
  await once(running.stdout as NonNullable<typeof running.stdout>, 'data');
  await bench.connected();
}

async function stop(signal: NodeJS.Signals): Promise<number | null> {
  const child = running;
  running = null;
  if (child === null) return null;
  const exit = once(child, 'exit');
  child.kill(signal);
  return (await exit)[0];
}

test('after kill -9 of the spawner nothing of its attempts survives, and each is closed as lost', async (t) => {
  if (cgroupRoot === null)
    return t.skip('no cgroup v2: the plain launcher has nothing that ends its programs');
  await startSpawner();
  const marker = `survivor-${process.pid}`;
  const steps = [token('before'), { escape: marker }, { ignoreTerm: 1 }, { sleepMs: 60_000 }];
  const again = await bench.begin(steps, { lastAttempt: false });
  const last = await bench.begin(steps);
  const waiting = bench.params(steps, { lastAttempt: false });
  await bench.client.call('start', waiting);
  const ended = await bench.begin([DONE]);
  await bench.finish(ended);
  const before = readFileSync(bench.spool(ended), 'utf8');
  for (const params of [again, last]) await bench.seen(params, ({ type }) => type === 'token');
  for (let n = 0; n < 200 && alive(marker).length < 2; n += 1) await sleep(10);
  assert.equal(alive(marker).length, 2);

  await stop('SIGKILL');
  await startSpawner();
  assert.deepEqual(alive(marker), []);
  for (const params of [again, waiting]) {
    const line = bench.lines(params).at(-1);
    assert.deepEqual([line?.type, line?.state, line?.reason], ['job', 'lost', 'spawner_died']);
  }
  const end = bench.lines(last).at(-1);
  assert.deepEqual(
    [end?.type, end?.outcome, end?.cause.code, end?.exit],
    ['end', 'lost', 'spawner_died', null],
  );
  assert.equal(end?.seq, bench.lines(last).length);
  assert.equal(readFileSync(bench.spool(ended), 'utf8'), before);
  assert.deepEqual(await bench.client.call('list', {}), { attempts: [] });
  assert.deepEqual(readdirSync(dirs.jobsRunDir), []);
  const metas = readdirSync(join(dirs.stateDir, 'jobs')).flatMap((job) =>
    readdirSync(join(dirs.stateDir, 'jobs', job)).filter((name) => name.endsWith('.meta.json')),
  );
  assert.deepEqual(metas, []);

  const retried = await bench.run([DONE], {
    ...again,
    attempt: 2,
    lastAttempt: true,
    retryReason: 'lost',
    payload: bench.params([DONE]).payload,
  });
  assert.deepEqual(
    retried.filter(({ type }) => type !== 'resources').map(({ type, state }) => state ?? type),
    ['retrying', 'starting', 'running', 'done', 'end'],
  );
});

test('kill -9 at any moment leaves whole lines, numbered without a gap, and one closing line', async (t) => {
  if (cgroupRoot === null)
    return t.skip('no cgroup v2: the plain launcher has nothing that ends its programs');
  if (running === null) await startSpawner();
  for (let round = 0; round < 6; round += 1) {
    const params = await bench.begin([{ flood: { bytes: 2e9, lineBytes: 200 } }], {
      lastAttempt: round % 2 === 0,
    });
    await bench.seen(params, ({ state }) => state === 'running');
    await sleep(round * 30);
    await stop('SIGKILL');
    await startSpawner();
    const lines = bench.lines(params);
    for (const [index, line] of lines.entries()) assert.equal(line.seq, index + 1);
    const closing = lines.filter(({ type, state }) => type === 'end' || state === 'lost');
    assert.equal(closing.length, 1);
    assert.equal(lines.at(-1), closing[0]);
  }
});

test('a spawner that is asked to stop closes its attempts as lost and leaves no process', async () => {
  if (running === null) await startSpawner();
  const marker = `stopped-${process.pid}`;
  const steps = cgroupRoot === null ? [token('up')] : [{ escape: marker }, token('up')];
  const params = await bench.begin([...steps, { sleepMs: 60_000 }], { lastAttempt: false });
  await bench.seen(params, ({ type }) => type === 'token');
  assert.equal(await stop('SIGTERM'), 0);
  const line = bench.lines(params).at(-1);
  assert.deepEqual([line?.state, line?.reason], ['lost', 'spawner_stopped']);
  assert.deepEqual(alive(marker), []);
  assert.equal(existsSync(join(dirs.runDir, 'spawner.sock')), false);
});
