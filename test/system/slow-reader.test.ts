// A client that stops reading: its job goes on, memory stays flat, others are served, and it gets everything in the end.
import assert from 'node:assert/strict';
import { after, before, test } from 'node:test';
import { startDaemon, type TestDaemon } from '../support/daemon.ts';
import { cleanState } from './leftovers.ts';
import { readSlowly } from './slow-reader.ts';

const PAUSE_MS = 10_000;
let daemon: TestDaemon;

before(async () => {
  daemon = await startDaemon({ instance: `slow-${process.pid}` });
});

after(async () => {
  assert.equal(await daemon.close(), 0);
  assert.deepEqual(cleanState(daemon), []);
});

test('a client that reads nothing while 200 MB are written costs no memory and then gets every line', async (t) => {
  const key = await daemon.tenant('flood', '--engine', 'scripted', '--output-bytes', '1G');
  const { growthBytes, answeredMs, receivedBytes } = await readSlowly(daemon, key, PAUSE_MS);
  const median = answeredMs.toSorted((a, b) => a - b)[Math.floor(answeredMs.length / 2)] ?? 0;
  t.diagnostic(
    `${receivedBytes} bytes, memory +${growthBytes}, other requests ${median.toFixed(1)} ms (median)`,
  );
  assert.ok(median < 500);
});
