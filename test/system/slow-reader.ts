// The check of a client that reads nothing while its job floods: used with a short pause here and the full one in test/full.
import assert from 'node:assert/strict';
import { readFileSync } from 'node:fs';
import { type IncomingMessage, request } from 'node:http';
import { setTimeout as sleep } from 'node:timers/promises';
import type { TestDaemon } from '../support/daemon.ts';

const FLOOD_BYTES = 200_000_000;
const MAX_GROWTH_BYTES = 100_000_000;

export interface SlowReading {
  /** Growth of djinnd's and the spawner's resident memory together, at its highest. */
  growthBytes: number;
  /** Milliseconds of each other request made meanwhile. */
  answeredMs: number[];
  receivedBytes: number;
}

/** Reads the head of the answer, then nothing for `pauseMs`, then everything; checks memory and the order of lines. */
export async function readSlowly(daemon: TestDaemon, key: string, pauseMs: number): Promise<SlowReading> {
  const pids = [await daemon.processOf('serve'), await daemon.processOf('spawner')];
  const resident = () => pids.reduce((sum, pid) => sum + residentBytes(pid), 0);
  const atRest = resident();
  const response = await postPaused(daemon, key, {
    prompt: JSON.stringify({ steps: [{ flood: { bytes: FLOOD_BYTES } }] }),
  });
  let growthBytes = 0;
  const answeredMs: number[] = [];
  const sample = async () => {
    growthBytes = Math.max(growthBytes, resident() - atRest);
    const started = performance.now();
    assert.equal((await daemon.get(key, '/v1/jobs')).status, 200);
    answeredMs.push(performance.now() - started);
  };
  for (const deadline = Date.now() + pauseMs; Date.now() < deadline; await sleep(250)) await sample();
  const watch = setInterval(() => {
    growthBytes = Math.max(growthBytes, resident() - atRest);
  }, 100);
  const receivedBytes = await readInOrder(response).finally(() => clearInterval(watch));
  assert.ok(receivedBytes > FLOOD_BYTES, `${receivedBytes} bytes came`);
  assert.ok(growthBytes < MAX_GROWTH_BYTES, `memory grew by ${growthBytes} bytes`);
  return { growthBytes, answeredMs, receivedBytes };
}

/** A response that nobody reads: the kernel's buffers fill and stay full. */
function postPaused(daemon: TestDaemon, key: string, body: unknown): Promise<IncomingMessage> {
  const headers = { authorization: `Bearer ${key}`, 'content-type': 'application/json' };
  return new Promise((resolve, reject) => {
    request(`${daemon.url}/v1/jobs`, { method: 'POST', headers }, resolve)
      .on('error', reject)
      .end(JSON.stringify(body));
  });
}

/** Reads to the end without keeping it: each line's seq must follow the one before, the last must be `end` with ok. */
async function readInOrder(response: IncomingMessage): Promise<number> {
  let received = 0;
  let pending = '';
  let expected = 0;
  let last = '';
  for await (const bytes of response as AsyncIterable<Buffer>) {
    received += bytes.length;
    const lines = (pending + bytes.toString('latin1')).split('\n');
    pending = lines.pop() ?? '';
    for (const line of lines) {
      if (line === '{"type":"heartbeat"}') continue;
      assert.ok(line.startsWith(`{"seq":${expected},`), `expected seq ${expected}: ${line.slice(0, 80)}`);
      expected += 1;
      last = line;
    }
  }
  assert.match(last, /"type":"end","outcome":"ok"/);
  return received;
}

function residentBytes(pid: number): number {
  return Number(/^VmRSS:\s+(\d+) kB$/m.exec(readFileSync(`/proc/${pid}/status`, 'utf8'))?.[1]) * 1024;
}
