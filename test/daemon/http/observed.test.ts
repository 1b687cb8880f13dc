// Metrics and log: bounded labels (C133, C134), one JSON line per entry whatever callers send (C139), no key in either (C136).
import assert from 'node:assert/strict';
import { randomBytes } from 'node:crypto';
import { connect } from 'node:net';
import { test } from 'node:test';
import { listenMetrics } from '../../../daemon/metrics-listener.ts';
import { call, startServer, type TestServer } from '../../support/http-server.ts';

const FORGED = 'x\n{"level":60,"tenant":"TB","msg":"forged"}\u001b[2J\u001b]0;t\u0007\u0085\u2028';

/** No control character, no line separator. */
const isPlain = (character: string) => {
  const code = character.codePointAt(0) ?? 0;
  return code >= 0x20 && !(code >= 0x7f && code <= 0x9f) && code !== 0x2028 && code !== 0x2029;
};

async function series(server: TestServer): Promise<string[]> {
  const text = await server.metrics.registry.metrics();
  return text.split('\n').filter((line) => line !== '' && !line.startsWith('#'));
}

test('unknown addresses, ids and odd methods make no series', async (t) => {
  const server = await startServer(t);
  const { a: key } = server.keys;
  await call(server, 'GET', '/nothing', { key });
  await call(server, 'GET', '/v1/jobs/job_x', { key });
  await call(server, 'PROPFIND', '/v1/jobs', { key });
  const before = (await series(server)).filter((line) => line.includes('http_request')).length;
  const odd = ['PROPFIND', 'MKCOL', 'REPORT', 'SEARCH', 'LOCK', 'PURGE', 'MERGE', 'BIND', 'ACL', 'COPY'];
  for (let n = 0; n < 2_000; n += 20) {
    const some = Array.from({ length: 20 }, (_, k) => {
      if (k < 14) return call(server, 'GET', `/${randomBytes(8).toString('hex')}?${n}`, { key });
      if (k < 19) return call(server, 'GET', `/v1/jobs/job_${randomBytes(8).toString('hex')}`, { key });
      return call(server, odd[n % odd.length] ?? 'COPY', '/v1/jobs', { key });
    });
    await Promise.all(some);
  }
  const after = (await series(server)).filter((line) => line.includes('http_request'));
  assert.equal(after.length, before);
  assert.ok(after.some((line) => line.includes('route="/v1/jobs/:jobId"')));
  assert.ok(after.some((line) => line.includes('route="unmatched"')));
});

test('no id, model, tenant or text of a caller is in a label', async (t) => {
  const server = await startServer(t);
  for (let n = 0; n < 20; n += 1) {
    await call(server, 'POST', '/v1/jobs', {
      key: server.keys.a,
      body: { prompt: `PROMPT${n}`, sessionId: `SESSION${n}`, model: `MODEL${n}` },
      headers: { prefer: 'respond-async', 'x-request-id': `REQ${n}`, 'user-agent': `AGENT${n}` },
    });
    server.jobs.all.at(-1)?.end();
  }
  const text = (await series(server)).join('\n');
  assert.doesNotMatch(text, /PROMPT|SESSION|MODEL|REQ\d|AGENT|job_|key_|TA/);
});

test('every log line is one JSON object of djinnd, whatever is in path, headers or body', async (t) => {
  const server = await startServer(t);
  const { a: key } = server.keys;
  const head = (path: string) =>
    `GET ${path} HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer ${key}\r\nUser-Agent: \x85\xa0<forged>\r\n` +
    'X-Request-Id: forged{"level":60}\r\nConnection: close\r\n\r\n';
  for (const path of ['/v1/jobs', `/${encodeURIComponent(FORGED)}`, '/\x85\xa0{"level":60}']) {
    await new Promise<void>((resolve, reject) => {
      const socket = connect(server.port, '127.0.0.1', () => socket.write(Buffer.from(head(path), 'latin1')));
      socket
        .resume()
        .on('error', reject)
        .on('close', () => resolve());
    });
  }
  await call(server, 'POST', '/v1/jobs', {
    key,
    body: { prompt: FORGED, metadata: { [FORGED]: 1 }, x: FORGED },
  });
  await call(server, 'POST', '/v1/jobs', { key, body: { prompt: FORGED, [FORGED]: 1 } });
  await call(server, 'GET', `/v1/jobs?${encodeURIComponent(FORGED)}=1`, { key });
  assert.ok(server.log.length >= 5);
  for (const line of server.log) {
    assert.equal(line.indexOf('\n'), line.length - 1);
    const entry = JSON.parse(line);
    assert.notEqual(entry.level, 60);
    assert.ok([...line.slice(0, -1)].every(isPlain), line);
    assert.equal(entry.tenant, undefined);
  }
});

test('neither keys nor bodies nor headers are in log, metrics or answers', async (t) => {
  const server = await startServer(t);
  const canary = `djk_TOKCANARY${randomBytes(24).toString('base64url')}`;
  const texts: string[] = [];
  for (const key of [canary, server.keys.a]) {
    texts.push((await call(server, 'GET', `/nope?access_token=${key}`)).text);
    texts.push((await call(server, 'GET', `/v1/jobs?access_token=${key}`, { key: server.keys.a })).text);
    for (const [method, path] of [
      ['GET', '/v1/jobs'],
      ['POST', '/v1/jobs'],
      ['GET', '/nope'],
      ['PUT', '/v1/jobs'],
    ] as const) {
      const answer = await call(server, method, path, {
        key,
        ...(method === 'GET' ? {} : { body: { prompt: 'BODYCANARY' } }),
        headers: { cookie: 'COOKIECANARY', 'x-other': 'HEADERCANARY', prefer: 'respond-async' },
      });
      texts.push(answer.text);
    }
  }
  const everything = [...server.log, ...(await series(server)), ...texts].join('\n');
  assert.ok(everything.includes('"msg":"request"'));
  assert.doesNotMatch(everything, /CANARY/);
  assert.ok(!everything.includes(server.keys.a) && !everything.includes(server.keys.a.slice(4, 24)));
});

test('requestId and traceparent tie an answer to its log line', async (t) => {
  const server = await startServer(t);
  const trace = '4bf92f3577b34da6a3ce929d0e0e4736';
  const answer = await call(server, 'GET', '/v1/jobs', {
    key: server.keys.a,
    headers: { 'x-request-id': 'my-id.1', traceparent: `00-${trace}-00f067aa0ba902b7-01` },
  });
  assert.equal(answer.headers['x-request-id'], 'my-id.1');
  const entry = server.log
    .map((line) => JSON.parse(line))
    .find(({ requestId, msg }) => requestId === 'my-id.1' && msg === 'request');
  assert.equal(entry.traceId, trace);
  assert.equal(entry.route, '/v1/jobs');
  assert.match(entry.keyId, /^key_/);
  for (const traceparent of [
    'x',
    `00-${'0'.repeat(32)}-00f067aa0ba902b7-01`,
    `ff-${trace}-00f067aa0ba902b7-01`,
  ]) {
    const other = await call(server, 'GET', '/healthz', {
      headers: { traceparent, 'x-request-id': 'bad id\u00e9' },
    });
    assert.equal(other.status, 200);
    assert.match(other.headers['x-request-id'] ?? '', /^req_/);
  }
});

test('the metrics listener serves /metrics and nothing else; gauges follow their sources', async (t) => {
  const server = await startServer(t);
  let up = false;
  server.metrics.watch({
    jobs: () => (up ? { queued: 3, running: 2 } : null),
    spawnerUp: () => up,
    enforcement: () =>
      up ? { memory: { level: 'full' }, disk: { level: 'partial' }, io: { level: 'none' } } : null,
    pool: () => ({ total: 5, idle: 4, waiting: 0 }),
  });
  const listener = await listenMetrics(server.metrics.registry, { host: '127.0.0.1', port: 0 });
  t.after(() => listener.close());
  const read = async () => await (await fetch(listener.url)).text();
  const away = await read();
  assert.match(away, /^djinnd_spawner_up 0$/m);
  assert.doesNotMatch(away, /^djinnd_jobs\{/m);
  up = true;
  const text = await read();
  assert.match(text, /^djinnd_jobs\{state="queued"\} 3$/m);
  assert.match(text, /^djinnd_enforcement\{control="memory"\} 2$/m);
  assert.match(text, /^djinnd_enforcement\{control="io"\} 0$/m);
  assert.match(text, /^djinnd_db_connections\{state="idle"\} 4$/m);
  assert.match(text, /^djinnd_spawner_up 1$/m);
  for (const path of ['/', '/metrics/x', '/v1/jobs']) {
    assert.equal((await fetch(new URL(path, listener.url))).status, 404);
  }
  await assert.rejects(
    listenMetrics(server.metrics.registry, { host: '127.0.0.1', port: Number(new URL(listener.url).port) }),
    /EADDRINUSE/,
  );
});
