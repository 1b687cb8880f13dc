// A program that has written everything and is gone before the spawner hears that it runs.
import assert from 'node:assert/strict';
import { after, before, test } from 'node:test';
import { setTimeout as sleep } from 'node:timers/promises';
import type { Launch } from '../../../daemon/spawner/launch.ts';
import { DONE, endOf, token, types } from '../../support/attempts.ts';
import { plainLaunch } from '../../support/plain-launch.ts';
import { makeDirs, plainOptions, type SpawnerBench, startBench } from '../../support/spawner.ts';

/** Tells late that the program runs, long after a short one has ended. */
const lateLaunch: Launch = (spec) => {
  const launched = plainLaunch(spec);
  const running = launched.running.then(async (runs) => {
    await sleep(1000);
    return runs;
  });
  return { ...launched, running };
};

let bench: SpawnerBench;
before(async () => {
  const dirs = makeDirs();
  const { parts } = plainOptions(dirs);
  bench = await startBench({ parts: { ...parts, launch: lateLaunch } as never }, dirs);
});
after(() => bench.close());

test('its events and records are all there', async () => {
  const record = JSON.stringify({ v: 1, seq: 1, ts: 'now', type: 'x', data: {}, crc: '00000000' });
  const lines = await bench.run([{ record }, token('one'), token('two'), DONE]);
  assert.deepEqual(types(lines), ['starting', 'running', 'token', 'token', 'done', 'end']);
  assert.equal(endOf(lines).outcome, 'ok');
});
