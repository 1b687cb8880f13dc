// Whatever is wrong with a request is answered by a problem document that says what, and repeats no value of it.
import assert from 'node:assert/strict';
import { connect } from 'node:net';
import { test } from 'node:test';
import { call, startServer, type TestServer } from '../../support/http-server.ts';

const SECRET = 'hunter2-hunter2';

/** Sends bytes as they are and gives back everything until the connection closes. */
function raw({ port }: TestServer, bytes: string | Buffer, halfClose = false): Promise<string> {
  return new Promise((resolve, reject) => {
    const chunks: Buffer[] = [];
    const socket = connect(port, '127.0.0.1', () => (halfClose ? socket.end(bytes) : socket.write(bytes)));
    socket.setTimeout(5_000, () => socket.destroy(new Error('no answer')));
    socket.on('data', (chunk: Buffer) => chunks.push(chunk));
    socket.on('error', reject);
    socket.on('close', () => resolve(Buffer.concat(chunks).toString('latin1')));
  });
}

test('a body of the wrong shape is 400 and says which member', async (t) => {
  const server = await startServer(t);
  const cases: [unknown, RegExp][] = [
    [{}, /lacks the member "prompt"/],
    [{ prompt: '' }, /\/prompt must NOT have fewer than 1 characters/],
    [{ prompt: 1 }, /\/prompt must be string/],
    [{ prompt: null }, /\/prompt must be string/],
    [{ prompt: [SECRET] }, /\/prompt must be string/],
    [{ prompt: 'x', x: SECRET }, /unknown member "x"/],
    [{ prompt: 'x', sessionId: `../${SECRET}` }, /\/sessionId must match pattern/],
    [{ prompt: 'x', sessionId: 'a'.repeat(65) }, /\/sessionId/],
    [{ prompt: 'x', sessionId: 'a\n' }, /\/sessionId/],
    [{ prompt: 'x', limits: { pids: '3' } }, /\/limits\/pids must be integer/],
    [{ prompt: 'x', limits: { pids: 3.5 } }, /\/limits\/pids must be integer/],
    [{ prompt: 'x', limits: { pids: 0 } }, /\/limits\/pids must be >= 1/],
    [{ prompt: 'x', limits: { wallMs: 24 * 3_600_000 } }, /\/limits\/wallMs must be <=/],
    [{ prompt: 'x', limits: { memoryBytes: 1e300 } }, /\/limits\/memoryBytes must be/],
    [{ prompt: 'x', limits: { cores: 1 } }, /\/limits has the unknown member "cores"/],
    [{ prompt: 'x', sandboxMode: SECRET }, /\/sandboxMode must be workspace-write, read-only/],
    [
      { prompt: 'x', images: [{ mediaType: 'image/svg+xml', data: 'aaaa' }] },
      /\/images\/0\/mediaType must be/,
    ],
    [{ prompt: 'x', images: [{ mediaType: 'image/png', data: `${SECRET}!` }] }, /\/images\/0\/data/],
    [{ prompt: 'x', tools: { allow: 'bash' } }, /\/tools\/allow must be array/],
    [{ prompt: 'x', cancelOnDisconnect: 'true' }, /\/cancelOnDisconnect must be boolean/],
    [{ prompt: 'x', metadata: [] }, /\/metadata must be object/],
    [{ prompt: 'x', metadata: { a: SECRET.repeat(1200) } }, /\/metadata has more than 16384 bytes/],
    [{ prompt: 'x', tenantId: '' }, /\/tenantId/],
    [[], /must be object/],
    ['null', /body is missing|must be object/],
    ['"text"', /must be object/],
    ['', /body is missing/],
  ];
  for (const [body, detail] of cases) {
    const answer = await call(server, 'POST', '/v1/jobs', { key: server.keys.a, body });
    const shown = JSON.stringify(body).slice(0, 80);
    assert.equal(answer.status, 400, shown);
    assert.equal(answer.json.code, 'DJ_BODY_INVALID', shown);
    assert.match(String(answer.json.detail), detail, shown);
    assert.ok(!answer.text.includes(SECRET), shown);
    assert.equal(answer.headers['content-type'], 'application/problem+json');
  }
  assert.equal(server.jobs.all.length, 0);
});

test('a body that is not JSON is 400 without a piece of it', async (t) => {
  const server = await startServer(t);
  const bodies: (string | Uint8Array)[] = [
    `{"prompt":"${SECRET}"`,
    `{"prompt":"x",}`,
    `{'prompt':'${SECRET}'}`,
    `${SECRET}`,
    '{"prompt":"a\nb"}',
    '{"__proto__":{"prompt":"x"},"prompt":"x"}',
    '{"constructor":{"prototype":{}},"prompt":"x"}',
    new Uint8Array([...Buffer.from('{"prompt":"'), 0xff, 0xfe, ...Buffer.from('"}')]),
    new Uint8Array([...Buffer.from('{"prompt":"'), 0xed, 0xa0, 0x80, ...Buffer.from('"}')]),
    Buffer.from('{"prompt":"x"}', 'utf16le'),
  ];
  for (const body of bodies) {
    const response = await fetch(`${server.url}/v1/jobs`, {
      method: 'POST',
      headers: { authorization: `Bearer ${server.keys.a}`, 'content-type': 'application/json' },
      body: body as never,
    });
    const text = await response.text();
    assert.equal(response.status, 400, String(body));
    assert.equal(JSON.parse(text).code, 'DJ_BODY_INVALID');
    assert.ok(!text.includes('hunter2'), text);
  }
});

test('a body of another type or in another encoding is 415', async (t) => {
  const server = await startServer(t);
  const encoded = await call(server, 'POST', '/v1/jobs', {
    key: server.keys.a,
    body: '{"prompt":"x"}',
    headers: { 'content-type': 'application/json', 'content-encoding': 'gzip' },
  });
  assert.equal(encoded.status, 415);
  assert.match(encoded.json.detail as string, /without Content-Encoding/);
  const types = [
    'text/plain',
    'application/x-www-form-urlencoded',
    'multipart/form-data; boundary=x',
    'application/jsonx',
    'json',
    '/',
    'application/json; charset=latin1',
  ];
  for (const type of types) {
    const answer = await call(server, 'POST', '/v1/jobs', {
      key: server.keys.a,
      body: '{"prompt":"x"}',
      headers: { 'content-type': type },
    });
    assert.equal(answer.status, 415, type);
    assert.equal(answer.json.code, 'DJ_MEDIA_TYPE', type);
  }
  for (const type of [
    'application/json',
    'application/json; charset=utf-8',
    'Application/JSON;charset="UTF-8"',
  ]) {
    const answer = await call(server, 'POST', '/v1/jobs', {
      key: server.keys.a,
      body: '{"prompt":"x"}',
      headers: { 'content-type': type, prefer: 'respond-async' },
    });
    assert.equal(answer.status, 202, type);
  }
});

test('a body over the limit is 413 that the client gets to read, and the connection goes on', async (t) => {
  const server = await startServer(t, { bodyLimitBytes: 100_000 });
  const big = JSON.stringify({ prompt: 'x'.repeat(3_000_000) });
  const answer = await call(server, 'POST', '/v1/jobs', { key: server.keys.a, body: big });
  assert.equal(answer.status, 413);
  assert.equal(answer.json.code, 'DJ_BODY_TOO_LARGE');
  const chunk = `${(1_000_000).toString(16)}\r\n${'x'.repeat(1_000_000)}\r\n`;
  const head = (path: string, more: string) =>
    `POST ${path} HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer ${server.keys.a}\r\nContent-Type: application/json\r\n${more}\r\n`;
  const text = await raw(
    server,
    `${head('/v1/jobs', 'Transfer-Encoding: chunked\r\n')}${chunk.repeat(3)}0\r\n\r\nGET /healthz HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n`,
  );
  assert.match(text, /^HTTP\/1.1 413 /);
  assert.match(text, /DJ_BODY_TOO_LARGE/);
  assert.match(text, /HTTP\/1.1 200 OK/);
});

test('a query with an unknown, repeated or mistyped member is 400', async (t) => {
  const server = await startServer(t);
  const { json } = await call(server, 'POST', '/v1/jobs', {
    key: server.keys.a,
    body: { prompt: 'x' },
    headers: { prefer: 'respond-async' },
  });
  const events = `/v1/jobs/${json.jobId}/events`;
  const bad = [
    '/v1/jobs?limit=0',
    '/v1/jobs?limit=201',
    '/v1/jobs?limit=1.5',
    '/v1/jobs?limit=',
    '/v1/jobs?limit=-1',
    '/v1/jobs?limit=1e1',
    '/v1/jobs?limit=0x10',
    '/v1/jobs?limit=%201',
    '/v1/jobs?limit=1&limit=2',
    '/v1/jobs?state=done',
    '/v1/jobs?state=',
    '/v1/jobs?x=1',
    '/v1/jobs?__proto__=1',
    '/v1/jobs?constructor=1',
    '/v1/jobs?cursor=',
    `/v1/jobs?cursor=${'x'.repeat(300)}`,
    '/v1/jobs?tenantId=a/b',
    `${events}?follow=1`,
    `${events}?follow=TRUE`,
    `${events}?follow=`,
    `${events}?follow`,
    `${events}?follow=true&follow=true`,
    `${events}?folow=true`,
    `${events}?after[]=1-1`,
  ];
  for (const path of bad) {
    const answer = await call(server, 'GET', path, { key: server.keys.operator });
    assert.equal(answer.status, 400, path);
    assert.equal(answer.json.code, 'DJ_QUERY_INVALID', path);
  }
  for (const path of ['/v1/jobs?limit=1&state=queued', `${events}?follow=false`, '/v1/jobs?']) {
    assert.equal((await call(server, 'GET', path, { key: server.keys.operator })).status, 200, path);
  }
});

test('a bad Idempotency-Key is 400', async (t) => {
  const server = await startServer(t);
  for (const value of ['a b', 'x'.repeat(256), 'é', ' ']) {
    const answer = await call(server, 'POST', '/v1/jobs', {
      key: server.keys.a,
      body: { prompt: 'x' },
      headers: { 'idempotency-key': value },
    });
    assert.equal(answer.status, 400, value);
    assert.equal(answer.json.code, 'DJ_HEADER_INVALID');
  }
  assert.equal(server.jobs.all.length, 0);
});

test('an unknown address is 404, a known one under another method 405 with Allow', async (t) => {
  const server = await startServer(t);
  const missing = [
    '/',
    '/v1',
    '/v1/',
    '/v2/jobs',
    '/v1/jobs/x/y',
    '/metrics',
    '/.env',
    '/%2e%2e/etc/passwd',
    '/v1//jobs',
    '/V1/jobs',
  ];
  for (const path of missing) {
    const answer = await call(server, 'GET', path);
    assert.equal(answer.status, 404, path);
    assert.equal(answer.json.code, 'DJ_NOT_FOUND', path);
  }
  const empty = await call(server, 'GET', '/v1/jobs/', { key: server.keys.a });
  assert.equal(empty.json.code, 'DJ_NOT_FOUND');
  const wrong: [string, string, string][] = [
    ['PUT', '/v1/jobs', 'GET, HEAD, POST'],
    ['DELETE', '/v1/jobs/job_x', 'GET, HEAD'],
    ['GET', '/v1/jobs/job_x/cancel', 'POST'],
    ['HEAD', '/v1/jobs/job_x/events', 'GET'],
    ['OPTIONS', '/v1/jobs', 'GET, HEAD, POST'],
    ['POST', '/healthz', 'GET, HEAD'],
    ['PROPFIND', '/v1/tenants/TA', 'GET, HEAD, PATCH'],
    ['PUT', '/v1/tenants/TA/keys/k', 'DELETE'],
  ];
  for (const [method, path, allow] of wrong) {
    const answer = await call(server, method, path, { key: server.keys.a });
    assert.equal(answer.status, 405, `${method} ${path}`);
    assert.equal(answer.headers.allow, allow, `${method} ${path}`);
    if (method !== 'HEAD') assert.equal(answer.json.code, 'DJ_METHOD_NOT_ALLOWED');
  }
  const bad = await call(server, 'GET', '/v1/jobs/%zz');
  assert.equal(bad.status, 400);
  assert.equal(bad.json.code, 'DJ_QUERY_INVALID');
});

test('what is not HTTP is answered by a problem too', async (t) => {
  const server = await startServer(t);
  const cases: [string, RegExp][] = [
    [`hello ${SECRET}\r\n\r\n`, /^HTTP\/1.1 400 .*DJ_REQUEST_MALFORMED/s],
    ['GET / HTTP/1.1\r\n\r\n', /^HTTP\/1.1 400 /],
    [
      `GET /healthz HTTP/1.1\r\nHost: x\r\nX: ${'a'.repeat(20_000)}\r\n\r\n`,
      /^HTTP\/1.1 431 .*DJ_HEADERS_TOO_LARGE/s,
    ],
    [
      'GET /healthz HTTP/1.1\r\nHost: x\r\nExpect: the-impossible\r\n\r\n',
      /^HTTP\/1.1 417 .*DJ_EXPECTATION_FAILED/s,
    ],
    [
      'POST /v1/jobs HTTP/1.1\r\nHost: x\r\nContent-Length: 5\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n',
      /^HTTP\/1.1 400 /,
    ],
    [
      'POST /v1/jobs HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\nzz\r\n',
      /^HTTP\/1.1 (400|401) /,
    ],
    ['GET /healthz HTTP/1.1\r\nHost: x\r\nBad Header: 1\r\n\r\n', /^HTTP\/1.1 400 /],
    ['GET /healthz HTTP/1.1\r\nHost: x\r\nX: a\0b\r\n\r\n', /^HTTP\/1.1 400 /],
    ['FOO /healthz HTTP/1.1\r\nHost: x\r\n\r\n', /^HTTP\/1.1 400 /],
    ['PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n', /^HTTP\/1.1 400 /],
  ];
  for (const [bytes, expected] of cases) {
    const text = await raw(server, bytes, !bytes.includes('zz'));
    assert.match(text, expected, bytes.slice(0, 40));
    assert.ok(!text.includes(SECRET));
  }
  assert.equal((await call(server, 'GET', '/healthz')).status, 200);
});

test('50 uploads that break off in the middle leave nothing behind and no job', async (t) => {
  const server = await startServer(t);
  const head = `POST /v1/jobs HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer ${server.keys.a}\r\nContent-Type: application/json\r\n`;
  await Promise.all(
    Array.from({ length: 50 }, async (_, n) => {
      const bytes = `${head}Content-Length: 1000\r\n\r\n{"prompt":"${'x'.repeat(n)}`;
      await new Promise<void>((resolve) => {
        const socket = connect(server.port, '127.0.0.1', () => {
          socket.write(bytes, () => (n % 2 === 0 ? socket.destroy() : socket.resetAndDestroy()));
        });
        socket.on('error', () => undefined);
        socket.on('close', () => resolve());
      });
    }),
  );
  assert.equal((await call(server, 'GET', '/healthz')).status, 200);
  assert.equal(server.jobs.all.length, 0);
  assert.equal(server.log.filter((line) => line.includes('"level":50')).length, 0);
});
