// Clients that read nothing cost no memory, disturb nobody and get everything in the end (C109); quiet streams live on.
import assert from 'node:assert/strict';
import { connect, type Socket } from 'node:net';
import { test } from 'node:test';
import { setTimeout as sleep } from 'node:timers/promises';
import { call, openStream, startServer } from '../../support/http-server.ts';

const CLIENTS = 10;
const MIB = 1024 * 1024;
const TOTAL = 30 * MIB;

/** A stream of numbered lines, 64 KiB to a buffer, made only when asked for. */
async function* lines(made: { bytes: number }, pause = true): AsyncGenerator<Buffer> {
  let seq = 0;
  while (made.bytes < TOTAL) {
    const chunk: string[] = [];
    for (let n = 0; n < 64; n += 1) {
      seq += 1;
      chunk.push(`${JSON.stringify({ seq, type: 'token', text: 'x'.repeat(990) })}\n`);
    }
    const bytes = Buffer.from(chunk.join(''));
    made.bytes += bytes.length;
    yield bytes;
    if (pause) await sleep(0);
  }
}

/** Asks for the stream and reads nothing. */
function openDeaf(port: number, key: string): Promise<Socket> {
  return new Promise((resolve, reject) => {
    const socket = connect({ port, host: '127.0.0.1' }, () => {
      socket.pause();
      socket.write(
        `GET /v1/jobs/job_x/events?follow=true HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer ${key}\r\nConnection: close\r\n\r\n`,
      );
      resolve(socket);
    });
    socket.on('error', reject);
  });
}

/** The sequence numbers of a chunked answer. */
async function readAll(socket: Socket): Promise<number[]> {
  const chunks: Buffer[] = [];
  for await (const chunk of socket) chunks.push(chunk as Buffer);
  const text = Buffer.concat(chunks)
    .toString('latin1')
    .replaceAll(/\r\n[0-9a-f]+\r\n/g, '');
  return [...text.matchAll(/\{"seq":(\d+)/g)].map(([, seq]) => Number(seq));
}

test('ten clients that read nothing cost little memory, and then get every line in order', async (t) => {
  const server = await startServer(t);
  const made: { bytes: number }[] = [];
  server.jobs.events = async () => {
    const counter = { bytes: 0 };
    made.push(counter);
    return lines(counter);
  };
  await call(server, 'GET', '/healthz');
  const before = process.memoryUsage().rss;
  const sockets = await Promise.all(
    Array.from({ length: CLIENTS }, () => openDeaf(server.port, server.keys.a)),
  );
  let slowest = 0;
  for (let n = 0; n < 20; n += 1) {
    const startedAt = performance.now();
    assert.equal((await call(server, 'GET', '/healthz')).status, 200);
    slowest = Math.max(slowest, performance.now() - startedAt);
    await sleep(100);
  }
  const pulled = made.reduce((sum, { bytes }) => sum + bytes, 0);
  const grown = process.memoryUsage().rss - before;
  t.diagnostic(
    `pulled ${Math.round(pulled / MIB)} of ${(CLIENTS * TOTAL) / MIB} MiB, grew by ${Math.round(grown / MIB)} MiB`,
  );
  assert.ok(pulled < CLIENTS * 12 * MIB, `the server pulled ${pulled} bytes that nobody read`);
  assert.ok(grown < 150 * MIB, `grew by ${grown} bytes`);
  assert.ok(slowest < 500, `another request took ${slowest} ms`);
  for (const socket of sockets) {
    const seen = await readAll(socket);
    assert.ok(seen.length * 1100 > TOTAL);
    assert.ok(seen.every((seq, index) => seq === index + 1));
  }
  assert.ok(made.every(({ bytes }) => bytes >= TOTAL));
});

test('a quiet stream carries heartbeats, none in the middle of lines and none once lines flow', async (t) => {
  const server = await startServer(t, { heartbeatMs: 60 });
  const stream = await openStream(server, 'POST', '/v1/jobs', { key: server.keys.a, body: { prompt: 'hi' } });
  await stream.until('heartbeat');
  const job = server.jobs.all[0];
  const quiet = stream.lines.length;
  for (let n = 0; n < 30; n += 1) {
    job?.emit({ type: 'token', text: `${n}` });
    await sleep(10);
  }
  const busy = stream.lines.slice(quiet).filter((line) => line === '{"type":"heartbeat"}').length;
  job?.end();
  assert.equal(await stream.over, true);
  assert.ok(busy <= 2, `${busy} heartbeats on a busy stream`);
  const events = stream.lines.filter((line) => line !== '{"type":"heartbeat"}');
  assert.equal(events.join('\n'), job?.lines.join('').trimEnd());
});

test('the heartbeat of an event source is a comment', async (t) => {
  const server = await startServer(t, { heartbeatMs: 30 });
  await call(server, 'POST', '/v1/jobs', {
    key: server.keys.a,
    body: { prompt: 'x' },
    headers: { prefer: 'respond-async' },
  });
  const job = server.jobs.all[0];
  const stream = await openStream(server, 'GET', `/v1/jobs/${job?.view.jobId}/events?follow=true`, {
    key: server.keys.a,
    headers: { accept: 'text/event-stream' },
  });
  await stream.until(': heartbeat');
  assert.ok(stream.lines.every((line) => line === '' || /^(: heartbeat$|id: |data: \{)/.test(line)));
  job?.end();
  await stream.over;
});

test('a client that reads nothing gets no heartbeats piled up', async (t) => {
  const server = await startServer(t, { heartbeatMs: 5 });
  server.jobs.events = async () => lines({ bytes: 0 }, false);
  const socket = await openDeaf(server.port, server.keys.a);
  await sleep(600);
  const chunks: Buffer[] = [];
  for await (const chunk of socket) chunks.push(chunk as Buffer);
  const beats = Buffer.concat(chunks).toString('latin1').split('"heartbeat"').length - 1;
  assert.ok(beats < 20, `${beats} heartbeats`);
});
