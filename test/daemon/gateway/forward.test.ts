// What goes through the gateway: the upstream sees only what it should, the sandbox gets the answer byte for byte.
import assert from 'node:assert/strict';
import { once } from 'node:events';
import { mkdtemp, rm } from 'node:fs/promises';
import { type AddressInfo, createServer } from 'node:net';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { test } from 'node:test';
import { setTimeout as sleep } from 'node:timers/promises';
import { ask, chat, KEY, openGateway, openRequest } from '../../support/gateway.ts';
import { DONE, startUpstream, streamed, textChunk, usageChunk } from '../../support/upstream.ts';

test('a streamed answer arrives byte for byte and its usage is counted', async (t) => {
  const pieces = [textChunk('北🌍'), ': keep-alive\n\n', usageChunk(11, 7), DONE];
  const upstream = await startUpstream(t, streamed(...pieces));
  const gateway = await openGateway(t, upstream.baseUrl);
  const answer = await ask(gateway.socketPath, chat({ stream: true }));
  assert.equal(answer.status, 200);
  assert.equal(answer.headers['content-type'], 'text/event-stream');
  assert.equal(answer.text, pieces.join(''));
  assert.deepEqual(gateway.spent, [
    { tenantId: 'TA', model: 'm-1', inputTokens: 11, outputTokens: 7, estimated: false },
  ]);
  const metrics = await gateway.metrics.registry.metrics();
  assert.match(metrics, /djinnd_gateway_requests_total\{result="2xx"\} 1/);
  assert.match(metrics, /djinnd_gateway_tokens_total\{direction="input"\} 11/);
});

test('the upstream gets the key, the usage option and nothing of the sandbox’s own headers', async (t) => {
  const upstream = await startUpstream(t, streamed(DONE));
  const gateway = await openGateway(t, upstream.baseUrl);
  await ask(gateway.socketPath, chat({ stream: true }), {
    headers: {
      authorization: 'Bearer forged',
      'api-key': 'forged',
      'x-api-key': 'forged',
      'proxy-authorization': 'forged',
      cookie: 'forged=1',
      'x-forwarded-for': '10.0.0.1',
      host: 'evil.example',
    },
  });
  const seen = upstream.seen[0];
  assert.ok(seen);
  assert.equal(seen.url, '/v1/chat/completions');
  assert.equal(seen.headers.authorization, `Bearer ${KEY}`);
  assert.equal(seen.headers['accept-encoding'], 'identity');
  assert.ok(!JSON.stringify(seen.headers).includes('forged'));
  assert.ok(!JSON.stringify(seen.headers).includes('evil'));
  assert.deepEqual(JSON.parse(seen.body).stream_options, { include_usage: true });
});

test('a unix socket as upstream works and keeps its connections', async (t) => {
  const dir = await mkdtemp(join(tmpdir(), 'djup-'));
  t.after(() => rm(dir, { recursive: true }));
  const upstream = await startUpstream(t, streamed(usageChunk(1, 2), DONE), {
    socketPath: join(dir, 'up.sock'),
  });
  const gateway = await openGateway(t, upstream.baseUrl);
  for (let round = 0; round < 3; round += 1) {
    assert.equal((await ask(gateway.socketPath, chat({ stream: true }))).status, 200);
  }
  assert.equal(gateway.spent.length, 3);
});

test('an answer goes on piece by piece while the upstream still writes', async (t) => {
  let goOn: () => void = () => {};
  const upstream = await startUpstream(t, async (response) => {
    response.writeHead(200, { 'content-type': 'text/event-stream' });
    response.write(textChunk('first'));
    await new Promise<void>((resolve) => {
      goOn = resolve;
    });
    response.end(DONE);
  });
  const gateway = await openGateway(t, upstream.baseUrl);
  const response = await openRequest(gateway.socketPath, chat({ stream: true }));
  const [chunk] = (await once(response, 'data')) as [Buffer];
  assert.equal(chunk.toString(), textChunk('first'));
  goOn();
  await once(response.resume(), 'end');
});

test('a sandbox that does not read slows the upstream down instead of filling memory', async (t) => {
  const piece = textChunk('x'.repeat(64 * 1024));
  let written = 0;
  const upstream = await startUpstream(t, async (response) => {
    response.writeHead(200, { 'content-type': 'text/event-stream' });
    while (written < 64 * 1024 * 1024) {
      written += piece.length;
      if (!response.write(piece)) await once(response, 'drain');
    }
    response.end(DONE);
  });
  const gateway = await openGateway(t, upstream.baseUrl);
  const response = await openRequest(gateway.socketPath, chat({ stream: true }));
  await sleep(500);
  const stalledAt = written;
  assert.ok(
    stalledAt < 32 * 1024 * 1024,
    `the upstream wrote ${stalledAt} bytes to a reader that reads nothing`,
  );
  await sleep(200);
  assert.equal(written, stalledAt);
  let got = 0;
  response.on('data', (chunk: Buffer) => {
    got += chunk.length;
  });
  await once(response, 'end');
  assert.equal(got, written + DONE.length);
});

test('an upstream error keeps its status, its body and its retry headers, and costs nothing', async (t) => {
  const upstream = await startUpstream(t, (response) => {
    response.writeHead(429, {
      'content-type': 'application/json',
      'retry-after': '7',
      'retry-after-ms': '6500',
      'set-cookie': 'a=b',
      location: 'http://elsewhere',
    });
    response.end(
      '{"error":{"message":"slow down","type":"requests","param":null,"code":"rate_limit_exceeded"}}',
    );
  });
  const gateway = await openGateway(t, upstream.baseUrl);
  const answer = await ask(gateway.socketPath, chat());
  assert.equal(answer.status, 429);
  assert.equal(answer.headers['retry-after'], '7');
  assert.equal(answer.headers['retry-after-ms'], '6500');
  assert.equal(answer.headers['set-cookie'], undefined);
  assert.equal(answer.headers.location, undefined);
  assert.equal(answer.error.code, 'rate_limit_exceeded');
  assert.deepEqual(gateway.spent, []);
});

test('an upstream that cannot be reached is a 502 that names only the kind of failure', async (t) => {
  const upstream = await startUpstream(t, streamed(DONE));
  await upstream.stop();
  const gateway = await openGateway(t, upstream.baseUrl);
  const answer = await ask(gateway.socketPath, chat());
  assert.equal(answer.status, 502);
  assert.equal(answer.error.code, 'upstream_unreachable');
  assert.match(answer.error.message, /ECONNREFUSED/);
  assert.doesNotMatch(answer.text, /127\.0\.0\.1|CANARY/);
  assert.deepEqual(gateway.spent, []);
});

test('a redirect is not followed and not passed on', async (t) => {
  const elsewhere = await startUpstream(t, streamed(DONE));
  const upstream = await startUpstream(t, (response) => {
    response.writeHead(307, { location: `${elsewhere.baseUrl}/chat/completions` }).end();
  });
  const gateway = await openGateway(t, upstream.baseUrl);
  const answer = await ask(gateway.socketPath, chat());
  assert.equal(answer.status, 502);
  assert.equal(answer.headers.location, undefined);
  assert.equal(elsewhere.seen.length, 0);
});

test('an answer that breaks off breaks off for the sandbox too and costs its reservation', async (t) => {
  const upstream = await startUpstream(t, async (response) => {
    response.writeHead(200, { 'content-type': 'text/event-stream' });
    response.write(textChunk('half'));
    await sleep(50);
    response.destroy();
  });
  const gateway = await openGateway(t, upstream.baseUrl);
  const answer = await ask(gateway.socketPath, chat({ stream: true, max_tokens: 100 }));
  assert.equal(answer.status, 200);
  assert.equal(answer.complete, false);
  assert.equal(gateway.spent[0]?.estimated, true);
  assert.equal(gateway.spent[0]?.outputTokens, 100);
});

test('kept-alive connections that the upstream closed meanwhile are replaced without an error', async (t) => {
  // Answers the first request of a connection, and resets it when another one comes.
  const server = createServer((socket) => {
    let requests = 0;
    socket.on('error', () => undefined);
    socket.on('data', () => {
      requests += 1;
      if (requests > 1) socket.resetAndDestroy();
      else socket.write('HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nContent-Length: 2\r\n\r\n{}');
    });
  });
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve));
  t.after(() => server.close());
  const gateway = await openGateway(t, `http://127.0.0.1:${(server.address() as AddressInfo).port}/v1`);
  for (let round = 0; round < 5; round += 1) {
    const answers = await Promise.all([1, 2, 3].map(() => ask(gateway.socketPath, chat())));
    assert.deepEqual(
      answers.map(({ status }) => status),
      [200, 200, 200],
      `round ${round}`,
    );
  }
  await gateway.gateway.stop(0);
});

test('a sandbox that goes away ends the upstream request', async (t) => {
  const upstream = await startUpstream(t, (response) => {
    response.writeHead(200, { 'content-type': 'text/event-stream' });
    response.write(textChunk('on and on'));
  });
  const gateway = await openGateway(t, upstream.baseUrl);
  for (let round = 0; round < 50; round += 1) {
    const response = await openRequest(gateway.socketPath, chat({ stream: true, max_tokens: 5 }));
    if (round % 2 === 0) await once(response, 'data');
    response.on('error', () => undefined);
    response.destroy();
  }
  for (let tries = 0; upstream.open() > 0 && tries < 100; tries += 1) await sleep(20);
  assert.equal(upstream.open(), 0);
  assert.equal(gateway.spent.length, 50);
  assert.ok(gateway.spent.every(({ estimated }) => estimated));
  assert.equal(gateway.log.filter((line) => line.includes('"level":50')).length, 0);
});
