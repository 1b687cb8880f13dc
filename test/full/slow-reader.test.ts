// A client that reads nothing for a minute while its job writes 200 MB. Too slow for every change; see test/system.
import assert from 'node:assert/strict';
import { after, before, test } from 'node:test';
import { startDaemon, type TestDaemon } from '../support/daemon.ts';
import { cleanState } from '../system/leftovers.ts';
import { readSlowly } from '../system/slow-reader.ts';

let daemon: TestDaemon;

before(async () => {
  daemon = await startDaemon({ instance: `slow-${process.pid}` });
});

after(async () => {
  assert.equal(await daemon.close(), 0);
  assert.deepEqual(cleanState(daemon), []);
});

test('a client that reads nothing for 60 s: flat memory, others under 500 ms, then every line', async (t) => {
  const key = await daemon.tenant('flood', '--engine', 'scripted', '--output-bytes', '1G');
  const { growthBytes, answeredMs, receivedBytes } = await readSlowly(daemon, key, 60_000);
  const slowest = Math.max(...answeredMs);
  t.diagnostic(
    `${receivedBytes} bytes, memory +${growthBytes}, slowest of ${answeredMs.length} requests ${slowest} ms`,
  );
  assert.ok(slowest < 500);
});
