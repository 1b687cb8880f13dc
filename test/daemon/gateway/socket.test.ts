// The life of a job's socket: opened twice, replaced, closed with requests in flight, handed over between daemons.
import assert from 'node:assert/strict';
import { mkdtemp, rm, stat, writeFile } from 'node:fs/promises';
import { createServer } from 'node:net';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { test } from 'node:test';
import { setTimeout as sleep } from 'node:timers/promises';
import { checkUpstream } from '../../../daemon/gateway/index.ts';
import { parseEndpoint } from '../../../daemon/gateway/upstream.ts';
import { ask, chat, openGateway, openRequest } from '../../support/gateway.ts';
import { DONE, startUpstream, streamed, textChunk, usageChunk } from '../../support/upstream.ts';

test('the socket has mode 0660 from the moment it is there', async (t) => {
  const upstream = await startUpstream(t, streamed(DONE));
  const { socketPath } = await openGateway(t, upstream.baseUrl);
  const found = await stat(socketPath);
  assert.ok(found.isSocket());
  assert.equal(found.mode & 0o777, 0o660);
});

test('opening twice changes nothing; what a dead predecessor left is replaced', async (t) => {
  const upstream = await startUpstream(t, streamed(DONE));
  const { gateway, job, socketPath } = await openGateway(t, upstream.baseUrl);
  const { ino } = await stat(socketPath);
  await Promise.all([gateway.open(job), gateway.open({ ...job })]);
  assert.equal((await stat(socketPath)).ino, ino);
  await gateway.close(job.jobId);
  await assert.rejects(stat(socketPath));

  const stale = createServer().listen(socketPath);
  await new Promise((resolve) => stale.once('listening', resolve));
  await writeFile(`${job.gatewayDir}/.new`, 'left over');
  await gateway.open(job);
  assert.equal((await ask(socketPath, chat({ stream: true }))).status, 200);
  // The predecessor's own clean-up must not take the successor's socket away.
  await new Promise((resolve) => stale.close(resolve));
  await sleep(50);
});

test('a successor takes over while the predecessor still lives, and keeps the path', async (t) => {
  const upstream = await startUpstream(t, streamed(DONE));
  const first = await openGateway(t, upstream.baseUrl);
  const second = await openGateway(t, upstream.baseUrl);
  await second.gateway.open({ ...first.job, jobId: 'job_2' });
  await first.gateway.stop(0);
  assert.equal((await ask(first.socketPath, chat({ stream: true }))).status, 200);
  await second.gateway.close('job_2');
});

test('a new attempt in another directory closes the old one', async (t) => {
  const upstream = await startUpstream(t, streamed(DONE));
  const { gateway, job, socketPath } = await openGateway(t, upstream.baseUrl);
  const gatewayDir = await mkdtemp(join(tmpdir(), 'djgw-'));
  t.after(() => rm(gatewayDir, { recursive: true }));
  await gateway.open({ ...job, attempt: 2, gatewayDir });
  await assert.rejects(ask(socketPath, chat()), /ENOENT|ECONNREFUSED/);
  assert.equal((await ask(join(gatewayDir, 'model.sock'), chat({ stream: true }))).status, 200);
  await gateway.close(job.jobId);
});

test('close ends what is in flight on both sides and charges it before it resolves', async (t) => {
  const upstream = await startUpstream(t, (response) => {
    response.writeHead(200, { 'content-type': 'text/event-stream' });
    response.write(textChunk('on and on'));
  });
  const { gateway, job, socketPath, spent } = await openGateway(t, upstream.baseUrl);
  const answers = Array.from({ length: 5 }, () => ask(socketPath, chat({ stream: true })));
  while (upstream.seen.length < 5) await sleep(10);
  await sleep(50);
  const startedAt = performance.now();
  await gateway.close(job.jobId);
  assert.ok(performance.now() - startedAt < 1_000);
  assert.equal(spent.length, 5);
  for (const answer of answers) assert.equal((await answer).complete, false);
  await sleep(50);
  assert.equal(upstream.open(), 0);
  await gateway.close(job.jobId);
  await gateway.close('job_unknown');
});

test('close also ends requests whose body never comes', async (t) => {
  const upstream = await startUpstream(t, streamed(DONE));
  const { gateway, job, socketPath } = await openGateway(t, upstream.baseUrl);
  const pending = openRequest(socketPath, '', { headers: { 'content-length': '100' } });
  const failed = assert.rejects(pending);
  await sleep(50);
  const startedAt = performance.now();
  await gateway.close(job.jobId);
  await failed;
  assert.ok(performance.now() - startedAt < 1_000);
});

test('stop lets answers finish within its grace and cuts the rest', async (t) => {
  const upstream = await startUpstream(t, async (response) => {
    response.writeHead(200, { 'content-type': 'text/event-stream' });
    response.write(textChunk('slow'));
    await sleep(400);
    response.end(usageChunk(3, 4) + DONE);
  });
  const finishing = await openGateway(t, upstream.baseUrl);
  const whole = ask(finishing.socketPath, chat({ stream: true }));
  while (upstream.seen.length < 1) await sleep(10);
  await finishing.gateway.stop(5_000);
  assert.equal((await whole).complete, true);
  assert.equal(finishing.spent[0]?.inputTokens, 3);
  await assert.rejects(ask(finishing.socketPath, chat()), /ENOENT|ECONNREFUSED/);

  const cutting = await openGateway(t, upstream.baseUrl);
  const half = ask(cutting.socketPath, chat({ stream: true }));
  while (upstream.seen.length < 2) await sleep(10);
  await sleep(50);
  await cutting.gateway.stop(50);
  assert.equal((await half).complete, false);
});

test('opening and closing over and over leaves no descriptor', async (t) => {
  const upstream = await startUpstream(t, streamed(usageChunk(1, 1), DONE));
  const { gateway, job, socketPath } = await openGateway(t, upstream.baseUrl);
  const handles = () => process.getActiveResourcesInfo().filter((name) => /Pipe|TCP/.test(name)).length;
  const before = handles();
  for (let round = 0; round < 100; round += 1) {
    await Promise.all([ask(socketPath, chat({ stream: true })), ask(socketPath, chat({ stream: true }))]);
    await gateway.close(job.jobId);
    await gateway.open(job);
  }
  await sleep(100);
  assert.ok(handles() <= before + 6, `${before} handles became ${handles()}`);
});

test('a path that no socket can have is an error that says so', async (t) => {
  const upstream = await startUpstream(t, streamed(DONE));
  const { gateway, job } = await openGateway(t, upstream.baseUrl);
  await assert.rejects(
    gateway.open({ ...job, jobId: 'job_long', gatewayDir: `/tmp/${'x'.repeat(120)}` }),
    /more than 107 bytes/,
  );
  await gateway.close('job_long');
});

test('base URLs are read strictly', () => {
  assert.deepEqual(parseEndpoint('https://h.example/v1/'), {
    secure: true,
    host: 'h.example',
    port: null,
    socketPath: null,
    path: '/v1/chat/completions',
  });
  assert.equal(parseEndpoint('http://[::1]:8080').host, '::1');
  assert.equal(parseEndpoint('http://[::1]:8080').path, '/chat/completions');
  assert.equal(
    parseEndpoint('https://h/openai/v1?api-version=1').path,
    '/openai/v1/chat/completions?api-version=1',
  );
  assert.deepEqual(parseEndpoint('unix:/run/a.sock:/v1'), {
    secure: false,
    host: 'localhost',
    port: null,
    socketPath: '/run/a.sock',
    path: '/v1/chat/completions',
  });
  assert.equal(parseEndpoint('unix:/run/a.sock').path, '/chat/completions');
  for (const bad of ['', 'h.example', 'ftp://h', 'file:///etc', 'unix:rel.sock', 'https://user:pw@h/v1']) {
    assert.throws(() => checkUpstream(bad), /base URL/, bad);
  }
  try {
    checkUpstream('https://user:PWCANARY@h/v1');
  } catch (error) {
    assert.doesNotMatch(String(error), /PWCANARY/);
  }
});
