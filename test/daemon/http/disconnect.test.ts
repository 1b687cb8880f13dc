// Callers that go away (C106), by every way a connection can end: the reader stops, the job runs on unless told otherwise.
import assert from 'node:assert/strict';
import { connect, type Socket } from 'node:net';
import { type TestContext, test } from 'node:test';
import { setTimeout as sleep } from 'node:timers/promises';
import { openStream, startServer, type TestServer } from '../../support/http-server.ts';

async function eventually(check: () => boolean | Promise<boolean>, what: string): Promise<void> {
  for (let tries = 0; tries < 250; tries += 1) {
    if (await check()) return;
    await sleep(20);
  }
  assert.fail(what);
}

const WAYS: Record<string, (socket: Socket) => void> = {
  close: (socket) => socket.destroy(),
  reset: (socket) => socket.resetAndDestroy(),
  'half-close': (socket) => socket.end(),
};

/** Posts a job over a bare socket and resolves once its first line is there. */
function postRaw(server: TestServer, body: object): Promise<Socket> {
  const text = JSON.stringify(body);
  return new Promise((resolve, reject) => {
    const socket = connect({ port: server.port, host: '127.0.0.1', allowHalfOpen: true }, () =>
      socket.write(
        `POST /v1/jobs HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer ${server.keys.a}\r\n` +
          `Content-Type: application/json\r\nContent-Length: ${text.length}\r\n\r\n${text}`,
      ),
    );
    socket.on('error', reject);
    socket.once('data', () => {
      socket.off('error', reject);
      socket.on('error', () => undefined);
      resolve(socket);
    });
  });
}

async function inFlight(server: TestServer): Promise<number> {
  const text = await server.metrics.registry.metrics();
  return Number(/^djinnd_http_streams_open (\d+)/m.exec(text)?.[1]);
}

async function leave(t: TestContext, way: string, body: object) {
  const server = await startServer(t);
  for (let round = 0; round < 50; round += 1) {
    const socket = await postRaw(server, body);
    WAYS[way]?.(socket);
    if (way === 'half-close') socket.resume();
  }
  await eventually(() => server.jobs.readers() === 0, 'a reader goes on');
  await eventually(async () => (await inFlight(server)) === 0, 'a stream counts as open');
  assert.equal(server.jobs.all.length, 50);
  assert.equal(server.log.filter((line) => /"level":(40|50|60)/.test(line)).length, 0);
  return server;
}

for (const way of Object.keys(WAYS)) {
  test(`50 callers that leave by ${way} leave their jobs running and no reader`, async (t) => {
    const server = await leave(t, way, { prompt: 'hi' });
    assert.ok(server.jobs.all.every(({ ended }) => !ended));
  });

  test(`50 callers that leave by ${way} take their jobs with them when they asked for it`, async (t) => {
    const server = await leave(t, way, { prompt: 'hi', cancelOnDisconnect: true });
    await eventually(
      () => server.jobs.all.every(({ view }) => view.outcome === 'cancelled'),
      'a job runs on',
    );
  });
}

test('a caller that leaves while it does not read is noticed too', async (t) => {
  const server = await startServer(t);
  const socket = await postRaw(server, { prompt: 'hi', cancelOnDisconnect: true });
  socket.pause();
  const job = server.jobs.all[0];
  for (let n = 0; n < 200; n += 1) job?.emit({ type: 'token', text: 'x'.repeat(100_000) });
  await sleep(200);
  socket.destroy();
  await eventually(() => job?.view.outcome === 'cancelled', 'the job runs on');
  assert.equal(server.jobs.readers(), 0);
});

test('cancelOnDisconnect concerns the stream of the POST that made the job, not later readers', async (t) => {
  const server = await startServer(t);
  const body = { prompt: 'hi', cancelOnDisconnect: true };
  const headers = { 'idempotency-key': 'k' };
  const first = await openStream(server, 'POST', '/v1/jobs', { key: server.keys.a, body, headers });
  await first.until('queued');
  const job = server.jobs.all[0];
  const path = `/v1/jobs/${job?.view.jobId}/events?follow=true`;
  const reader = await openStream(server, 'GET', path, { key: server.keys.a });
  const replayed = await openStream(server, 'POST', '/v1/jobs', { key: server.keys.a, body, headers });
  await Promise.all([reader.until('queued'), replayed.until('queued')]);
  reader.destroy();
  replayed.destroy();
  await eventually(() => server.jobs.readers() === 1, 'the readers go on');
  await sleep(50);
  assert.equal(job?.ended, false);
  job?.end();
  assert.equal(await first.over, true);
});

test('a stream whose source fails breaks off and is logged', async (t) => {
  const server = await startServer(t);
  const fail = async function* () {
    yield Buffer.from('{"seq":1}\n');
    throw new Error('disk on fire');
  };
  server.jobs.events = async () => fail();
  const stream = await openStream(server, 'POST', '/v1/jobs', { key: server.keys.a, body: { prompt: 'hi' } });
  assert.equal(await stream.over, false);
  assert.ok(server.log.some((line) => line.includes('disk on fire') && line.includes('"level":50')));
});
