// Stopping (C115): what is being answered is answered, streams close without `end`, jobs run on, nothing lingers.
import assert from 'node:assert/strict';
import { Agent, request } from 'node:http';
import { connect } from 'node:net';
import { test } from 'node:test';
import { setTimeout as sleep } from 'node:timers/promises';
import { call, openStream, startServer } from '../../support/http-server.ts';

test('a stop answers what is in flight, cuts streams, leaves jobs and ends well within its grace', async (t) => {
  const server = await startServer(t);
  const { a: key } = server.keys;
  const body = { prompt: 'hi', cancelOnDisconnect: true };
  const stream = await openStream(server, 'POST', '/v1/jobs', { key, body });
  await stream.until('queued');
  const idle = connect(server.port, '127.0.0.1');
  const idleClosed = new Promise((resolve) => idle.once('close', resolve));
  await new Promise((resolve) => idle.once('connect', resolve));
  idle.resume();

  const agent = new Agent({ keepAlive: true, maxSockets: 1 });
  t.after(() => agent.destroy());
  const get = (path: string, method = 'GET', text = '') =>
    new Promise<{ status: number; body: string; connection: string | undefined }>((resolve, reject) => {
      const headers = {
        authorization: `Bearer ${key}`,
        ...(text === '' ? {} : { 'content-type': 'application/json' }),
      };
      const out = request({ port: server.port, path, method, agent, headers }, (response) => {
        let got = '';
        response.on('data', (chunk) => {
          got += chunk;
        });
        response.on('end', () =>
          resolve({ status: response.statusCode ?? 0, body: got, connection: response.headers.connection }),
        );
      });
      out.on('error', reject);
      out.end(text);
    });
  assert.equal((await get('/healthz')).status, 200);
  const list = server.jobs.list;
  server.jobs.list = async (...parameters) => {
    await sleep(700);
    return await list(...parameters);
  };
  const slow = get('/v1/jobs');
  await sleep(50);

  const startedAt = performance.now();
  const stopped = server.server.stop(20_000);
  const answer = await slow;
  assert.equal(answer.status, 200);
  assert.equal(answer.connection, 'close');
  assert.equal(await stream.over, false);
  assert.ok(!stream.lines.some((line) => line.includes('"end"')));
  await stopped;
  await idleClosed;
  assert.ok(performance.now() - startedAt < 10_000);
  assert.equal(server.jobs.all[0]?.ended, false);
  assert.equal(server.jobs.readers(), 0);
  await assert.rejects(get('/healthz'), /ECONNREFUSED/);
  await server.server.stop(0);
});

test('while answers are outstanding a new job is refused with DJ_STOPPING and reading goes on', async (t) => {
  const server = await startServer(t);
  const { a: key } = server.keys;
  let release = () => {};
  server.jobs.list = () =>
    new Promise((resolve) => {
      release = () => resolve({ jobs: [], next: null });
    });
  const outstanding = call(server, 'GET', '/v1/jobs', { key });
  await sleep(100);
  const stopped = server.server.stop(20_000);
  const refused = await call(server, 'POST', '/v1/jobs', { key, body: { prompt: 'x' } });
  assert.equal(refused.status, 503);
  assert.equal(refused.json.code, 'DJ_STOPPING');
  assert.equal(refused.headers.connection, 'close');
  assert.ok(Number(refused.headers['retry-after']) > 0);
  const ready = await call(server, 'GET', '/readyz');
  assert.equal(ready.status, 503);
  assert.deepEqual(ready.json.reasons, ['djinnd is stopping']);
  assert.equal((await call(server, 'GET', '/healthz')).status, 200);
  release();
  assert.equal((await outstanding).status, 200);
  await stopped;
  assert.equal(server.jobs.all.length, 0);
});

test('what outlives the grace is cut', async (t) => {
  const server = await startServer(t);
  server.jobs.list = () => new Promise(() => undefined);
  const socket = connect(server.port, '127.0.0.1');
  const closed = new Promise((resolve) => socket.once('close', resolve));
  socket.write(`GET /v1/jobs HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer ${server.keys.a}\r\n\r\n`);
  await sleep(100);
  const startedAt = performance.now();
  await server.server.stop(300);
  await closed;
  assert.ok(performance.now() - startedAt < 2_000);
});

test('the process that stopped can listen on the same port at once', async (t) => {
  const first = await startServer(t);
  const stream = await openStream(first, 'POST', '/v1/jobs', { key: first.keys.a, body: { prompt: 'hi' } });
  await first.server.stop(100);
  await stream.over;
  const second = await startServer(t);
  await second.server.stop(0);
  const third = await startServer(t);
  assert.ok(third.port > 0);
});
