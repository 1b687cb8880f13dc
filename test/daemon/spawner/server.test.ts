import assert from 'node:assert/strict';
import { once } from 'node:events';
import { mkdtempSync, rmSync, statSync, writeFileSync } from 'node:fs';
import { connect, type Socket } from 'node:net';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { after, afterEach, test } from 'node:test';
import { setTimeout as sleep } from 'node:timers/promises';
import fc from 'fast-check';
import { pino } from 'pino';
import { connectSpawner, SpawnerError, SpawnerLost } from '../../../daemon/spawner/client.ts';
import { Refusal } from '../../../daemon/spawner/refusal.ts';
import type { CheckedRequest } from '../../../daemon/spawner/request.ts';
import { listenSpawner, type SpawnerServer } from '../../../daemon/spawner/server.ts';

const dir = mkdtempSync(join(tmpdir(), 'djinnd-server-'));
const socketPath = join(dir, 'spawner.sock');
const log = pino({ level: 'silent' });
const owner = { uid: process.getuid?.() ?? 0, gid: process.getgid?.() ?? 0 };
const open: { close(): unknown }[] = [];
afterEach(async () => {
  for (const each of open.splice(0)) await each.close();
});
after(() => rmSync(dir, { recursive: true, force: true }));

const noAttempts = async (): Promise<unknown> => ({ attempts: [] });

async function listen(
  handle: (request: CheckedRequest) => Promise<unknown> = noAttempts,
): Promise<SpawnerServer> {
  const server = await listenSpawner({ socketPath, owner, handle, log });
  open.push(server);
  return server;
}

async function client() {
  const spawner = connectSpawner(socketPath, log);
  open.push(spawner);
  if (!spawner.connected) await new Promise<void>((resolve) => spawner.on('up', resolve));
  return spawner;
}

/** Sends bytes and collects what comes until the server closes or `ms` have passed. */
async function raw(bytes: Buffer | string, ms = 300): Promise<{ text: string; closed: boolean }> {
  const socket: Socket = connect(socketPath);
  let text = '';
  socket.on('data', (chunk) => (text += chunk.toString()));
  socket.on('error', () => {});
  await once(socket, 'connect');
  const closed = new Promise<boolean>((resolve) => socket.on('close', () => resolve(true)));
  socket.write(bytes);
  const isClosed = await Promise.race([closed, sleep(ms, false)]);
  socket.destroy();
  return { text, closed: isClosed };
}

test('only the owner may connect', async () => {
  await listen();
  assert.equal(statSync(socketPath).mode & 0o777, 0o600);
});

test('answers come for each call, whatever order they finish in', async () => {
  await listen(async ({ method, params }) => {
    if (method !== 'prune') return {};
    const ms = Number(params.jobId.slice(4));
    await sleep(ms);
    return { pruned: true, ms };
  });
  const spawner = await client();
  const answers = await Promise.all(
    [40, 10, 0, 20].map((ms) => spawner.call('prune', { jobId: `job_${ms}` })),
  );
  assert.deepEqual(
    answers.map((answer) => (answer as { ms?: number }).ms),
    [40, 10, 0, 20],
  );
});

test('a refusal has its code, an unexpected failure is internal', async () => {
  await listen(async ({ method }) => {
    if (method === 'list') throw new Refusal('draining', 'going');
    throw new Error('oops');
  });
  const spawner = await client();
  await assert.rejects(
    spawner.call('list', {}),
    (error) => error instanceof SpawnerError && error.code === 'draining',
  );
  await assert.rejects(
    spawner.call('hello', {}),
    (error) => error instanceof SpawnerError && error.code === 'internal',
  );
});

test('a bad request with an id is answered and does not end the connection', async () => {
  await listen();
  const { text, closed } = await raw(
    '{"id":7,"method":"nope","params":{}}\n{"id":8,"method":"list","params":{}}\n',
  );
  assert.match(text, /"id":7,"error":\{"code":"bad_request"/);
  assert.match(text, /"id":8,"result"/);
  assert.equal(closed, false);
});

test('bytes that are no request end the connection and nothing else', async () => {
  await listen();
  const garbage = ['{}\n', 'GET / HTTP/1.1\r\n\r\n', '[]\n', 'null\n', '{"id":"1"}\n', '\u0000\u0001\n'];
  for (const text of garbage) assert.equal((await raw(text)).closed, true, text);
  const bytes = fc.uint8Array({ minLength: 1, maxLength: 200 }).map((list) => Buffer.from(list));
  await fc.assert(
    fc.asyncProperty(bytes, async (chunk) => {
      await raw(Buffer.concat([chunk, Buffer.from('\n')]), 5);
    }),
    { numRuns: 100 },
  );
  const spawner = await client();
  assert.deepEqual(await spawner.call('list', {}), { attempts: [] });
});

test('a request above the cap ends the connection', async () => {
  await listen();
  const { closed } = await raw(Buffer.alloc(33 * 1024 * 1024, 'x'), 5000);
  assert.equal(closed, true);
});

test('an 8 MB prompt passes', async () => {
  let size = 0;
  await listen(async ({ method, params }) => {
    if (method === 'start') size = params.payload.prompt.length;
    return {};
  });
  const spawner = await client();
  const prompt = 'p'.repeat(8 * 1024 * 1024);
  const limits = { memoryBytes: 1, pids: 1, cpuPercent: 1, wallMs: 1, outputBytes: 1, diskBytes: 1 };
  await spawner.call('start', {
    ...{ jobId: 'job_a', attempt: 1, lastAttempt: true, tenantId: 't', sessionId: 's', engine: 'e' },
    ...{ limits, totals: {}, network: 'none', payload: { prompt, models: [{ id: 'm' }] } },
  });
  assert.equal(size, prompt.length);
});

test('every client gets the notices', async () => {
  const server = await listen();
  const clients = [await client(), await client()];
  const seen: string[] = [];
  for (const each of clients) {
    each.on('running', ({ jobId }) => seen.push(jobId));
    each.on('sealed', ({ jobId, last }) => seen.push(`${jobId} ${last}`));
    await each.call('list', {});
  }
  server.notify({ notice: 'running', jobId: 'job_a', attempt: 1 });
  server.notify({ notice: 'sealed', last: 'end', jobId: 'job_a', attempt: 1 });
  await clients[0]?.call('list', {});
  await clients[1]?.call('list', {});
  assert.deepEqual(seen.sort(), ['job_a', 'job_a', 'job_a end', 'job_a end']);
});

test('a client that reads nothing is cut off before it costs memory', async () => {
  const server = await listen();
  const socket = connect(socketPath);
  socket.on('error', () => {});
  await once(socket, 'connect');
  socket.pause();
  socket.write('{"id":1,"method":"list","params":{}}\n');
  await sleep(50);
  const notice = { notice: 'running', jobId: `job_${'a'.repeat(64)}`, attempt: 1 } as const;
  const before = process.memoryUsage().rss;
  for (let n = 0; n < 600_000; n += 1) {
    server.notify(notice);
    if (n % 10_000 === 0) await sleep(0);
  }
  assert.ok(process.memoryUsage().rss - before < 150 * 1024 * 1024);
  socket.destroy();
});

test('a second spawner on the same socket is refused, a stale file is replaced', async () => {
  const server = await listen();
  await assert.rejects(listen(), /another spawner listens/);
  await server.close();
  open.splice(0);
  writeFileSync(socketPath, '');
  await assert.rejects(listen(), /is not a socket/);
  rmSync(socketPath);
});

test('the client comes back by itself and tells of calls that have no answer', async () => {
  const first = await listen(async () => new Promise(() => {}));
  const spawner = await client();
  const states: string[] = [];
  spawner.on('down', () => states.push('down'));
  spawner.on('up', () => states.push('up'));
  const lost = assert.rejects(
    spawner.call('list', {}),
    (error) => error instanceof SpawnerLost && error.sent,
  );
  await sleep(20);
  await first.close();
  open.splice(open.indexOf(first), 1);
  await lost;
  await assert.rejects(spawner.call('list', {}), (error) => error instanceof SpawnerLost && !error.sent);
  await listen();
  while (!spawner.connected) await sleep(10);
  assert.deepEqual(states, ['down', 'up']);
  assert.deepEqual(await spawner.call('list', {}), { attempts: [] });
});
