// Starting, reading, listing and cancelling jobs over HTTP.
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { Problem } from '../../../daemon/errors.ts';
import { call, openStream, startServer } from '../../support/http-server.ts';

test('a job is streamed as NDJSON from its queued line to its end', async (t) => {
  const server = await startServer(t);
  const stream = await openStream(server, 'POST', '/v1/jobs', { key: server.keys.a, body: { prompt: 'hi' } });
  assert.equal(stream.response.statusCode, 200);
  const { headers } = stream.response;
  assert.equal(headers['content-type'], 'application/x-ndjson');
  assert.equal(headers['cache-control'], 'no-store');
  assert.equal(headers['x-accel-buffering'], 'no');
  assert.match(headers['x-request-id'] as string, /^req_/);
  await stream.until('"queued"');
  const job = server.jobs.all[0];
  assert.ok(job);
  assert.equal(headers.location, `/v1/jobs/${job.view.jobId}`);
  assert.equal(stream.lines.length, 1);
  job.emit({ type: 'token', text: 'hello' });
  await stream.until('hello');
  job.end();
  assert.equal(await stream.over, true);
  assert.deepEqual(
    stream.lines.map((line) => JSON.parse(line).type),
    ['job', 'token', 'end'],
  );
  assert.equal(stream.lines.join('\n'), job.lines.join('').trimEnd());
});

test('Prefer: respond-async answers 202 with the job', async (t) => {
  const server = await startServer(t);
  for (const prefer of ['respond-async', 'wait=5, respond-async', 'Respond-Async; x=1']) {
    const answer = await call(server, 'POST', '/v1/jobs', {
      key: server.keys.a,
      body: { prompt: 'hi', metadata: { ticket: 7 } },
      headers: { prefer },
    });
    assert.equal(answer.status, 202);
    assert.equal(answer.headers['preference-applied'], 'respond-async');
    assert.equal(answer.headers.location, `/v1/jobs/${answer.json.jobId}`);
    assert.equal(answer.json.state, 'queued');
    assert.deepEqual(answer.json.metadata, { ticket: 7 });
    const got = await call(server, 'GET', answer.headers.location ?? '', { key: server.keys.a });
    assert.deepEqual(got.json, answer.json);
  }
});

test('the whole body reaches the jobs as it was sent, with the tenant of the key', async (t) => {
  const server = await startServer(t);
  const body = {
    prompt: 'hi\u0000\u2028"',
    images: [{ mediaType: 'image/png', data: 'aGVsbG8=' }],
    sessionId: 's-1',
    systemPrompt: 'be brief',
    model: 'm/1:x',
    tools: { allow: ['bash'], deny: [] },
    sandboxMode: 'read-only',
    limits: { memoryBytes: 1024, pids: 3, cpuPercent: 50, wallMs: 1000, outputBytes: 10, diskBytes: 10 },
    cancelOnDisconnect: false,
    metadata: { a: [1, null], b: { c: true } },
  };
  const answer = await call(server, 'POST', '/v1/jobs', {
    key: server.keys.a,
    body,
    headers: { prefer: 'respond-async' },
  });
  assert.equal(answer.status, 202);
  assert.deepEqual(server.jobs.all[0]?.body, { ...body, tenantId: 'TA' });
});

test('the same Idempotency-Key attaches to the same job, another body is 422, another tenant gets its own', async (t) => {
  const server = await startServer(t);
  const post = (key: string, prompt: string) =>
    call(server, 'POST', '/v1/jobs', {
      key,
      body: { prompt },
      headers: { prefer: 'respond-async', 'idempotency-key': 'k-1' },
    });
  const all = await Promise.all(Array.from({ length: 20 }, () => post(server.keys.a, 'hi')));
  assert.equal(new Set(all.map(({ json }) => json.jobId)).size, 1);
  assert.equal(all.filter(({ headers }) => headers['idempotency-replayed'] === 'true').length, 19);
  const other = await post(server.keys.a, 'another');
  assert.equal(other.status, 422);
  assert.equal(other.json.code, 'DJ_IDEMPOTENCY_MISMATCH');
  const foreign = await post(server.keys.b, 'hi');
  assert.equal(foreign.status, 202);
  assert.notEqual(foreign.json.jobId, all[0]?.json.jobId);
  assert.equal(server.jobs.all.length, 2);
});

test('a replayed POST streams the job from its first line', async (t) => {
  const server = await startServer(t);
  const options = { key: server.keys.a, body: { prompt: 'hi' }, headers: { 'idempotency-key': 'k' } };
  const first = await openStream(server, 'POST', '/v1/jobs', options);
  await first.until('queued');
  server.jobs.all[0]?.emit({ type: 'token', text: 'x' });
  const second = await openStream(server, 'POST', '/v1/jobs', options);
  await second.until('"text":"x"');
  server.jobs.all[0]?.end();
  assert.deepEqual(await Promise.all([first.over, second.over]), [true, true]);
  assert.deepEqual(second.lines, first.lines);
});

test('a platform key names one of its tenants, other keys must name none', async (t) => {
  const server = await startServer(t);
  const post = (key: string, tenantId?: string) =>
    call(server, 'POST', '/v1/jobs', {
      key,
      body: { prompt: 'hi', ...(tenantId === undefined ? {} : { tenantId }) },
      headers: { prefer: 'respond-async' },
    });
  const { keys } = server;
  const outcome = async (key: string, tenantId?: string) => {
    const { status, json } = await post(key, tenantId);
    return `${status} ${json.code ?? json.tenantId}`;
  };
  assert.equal(await outcome(keys.platform), '400 DJ_TENANT_REQUIRED');
  assert.equal(await outcome(keys.platform, 'TC'), '202 TC');
  assert.equal(await outcome(keys.platform, 'TB'), '403 DJ_FORBIDDEN');
  assert.equal(await outcome(keys.platform, 'no-such'), '403 DJ_FORBIDDEN');
  assert.equal(await outcome(keys.a, 'TA'), '400 DJ_TENANT_NOT_ALLOWED');
  assert.equal(await outcome(keys.adminA, 'TB'), '400 DJ_TENANT_NOT_ALLOWED');
  assert.equal(await outcome(keys.operator, 'TA'), '403 DJ_FORBIDDEN');
  const known = await post(keys.platform, 'TB');
  const unknown = await post(keys.platform, 'no-such');
  assert.equal(known.json.detail, unknown.json.detail);
});

test('lists are newest first, by pages, and hold own jobs only', async (t) => {
  const server = await startServer(t);
  const ids: string[] = [];
  for (let n = 0; n < 5; n += 1) {
    const key = n === 2 ? server.keys.b : server.keys.a;
    const { json } = await call(server, 'POST', '/v1/jobs', {
      key,
      body: { prompt: `${n}` },
      headers: { prefer: 'respond-async' },
    });
    if (n !== 2) ids.unshift(String(json.jobId));
  }
  const seen: string[] = [];
  let cursor = '';
  for (let page = 0; page < 5; page += 1) {
    const { json, status } = await call(server, 'GET', `/v1/jobs?limit=2${cursor}`, { key: server.keys.a });
    assert.equal(status, 200);
    seen.push(...(json.jobs as { jobId: string }[]).map(({ jobId }) => jobId));
    if (json.next === null) break;
    cursor = `&cursor=${json.next}`;
  }
  assert.deepEqual(seen, ids);
  const operator = await call(server, 'GET', '/v1/jobs', { key: server.keys.operator });
  assert.equal((operator.json.jobs as unknown[]).length, 5);
  const narrowed = await call(server, 'GET', '/v1/jobs?tenantId=TB', { key: server.keys.operator });
  assert.equal((narrowed.json.jobs as unknown[]).length, 1);
  const foreign = await call(server, 'GET', '/v1/jobs?tenantId=TB', { key: server.keys.platform });
  assert.equal(foreign.status, 403);
  const named = await call(server, 'GET', '/v1/jobs?tenantId=TA', { key: server.keys.a });
  assert.equal(named.json.code, 'DJ_TENANT_NOT_ALLOWED');
});

test('cancel is idempotent and takes no body, an empty one or an empty JSON one', async (t) => {
  const server = await startServer(t);
  const { json } = await call(server, 'POST', '/v1/jobs', {
    key: server.keys.a,
    body: { prompt: 'hi' },
    headers: { prefer: 'respond-async' },
  });
  for (const body of [undefined, '', {}]) {
    const answer = await call(server, 'POST', `/v1/jobs/${json.jobId}/cancel`, { key: server.keys.a, body });
    assert.equal(answer.status, 200);
    assert.equal(answer.json.outcome, 'cancelled');
  }
});

test('a refusal of the jobs keeps its code, headers and further members', async (t) => {
  const server = await startServer(t);
  server.jobs.onAdmit = () => {
    throw new Problem('DJ_QUEUE_FULL', 'Wait for a job to end.', {
      headers: { 'retry-after': '5' },
      extra: { maxQueued: 3, status: 200, code: 'forged' },
    });
  };
  const answer = await call(server, 'POST', '/v1/jobs', { key: server.keys.a, body: { prompt: 'hi' } });
  assert.equal(answer.status, 429);
  assert.equal(answer.headers['retry-after'], '5');
  assert.equal(answer.headers['content-type'], 'application/problem+json');
  const { requestId, ...rest } = answer.json;
  assert.equal(requestId, answer.headers['x-request-id']);
  assert.deepEqual(rest, {
    type: 'urn:djinnd:problem:DJ_QUEUE_FULL',
    title: "The tenant's queue is full",
    status: 429,
    code: 'DJ_QUEUE_FULL',
    detail: 'Wait for a job to end.',
    maxQueued: 3,
  });
});

test('a fault says only its requestId, which the log has with the cause', async (t) => {
  const server = await startServer(t);
  server.jobs.onAdmit = () => {
    throw new Error('password=hunter2');
  };
  const answer = await call(server, 'POST', '/v1/jobs', { key: server.keys.a, body: { prompt: 'hi' } });
  assert.equal(answer.status, 500);
  assert.equal(answer.json.code, 'DJ_INTERNAL');
  assert.doesNotMatch(answer.text, /hunter2/);
  assert.ok(
    server.log.some((line) => line.includes('hunter2') && line.includes(String(answer.json.requestId))),
  );
});

test('a database that is away is 503 with Retry-After', async (t) => {
  const server = await startServer(t);
  server.jobs.onAdmit = () => {
    throw Object.assign(new Error('connect ECONNREFUSED'), { code: 'ECONNREFUSED' });
  };
  const answer = await call(server, 'POST', '/v1/jobs', { key: server.keys.a, body: { prompt: 'hi' } });
  assert.equal(answer.status, 503);
  assert.equal(answer.json.code, 'DJ_NOT_READY');
  assert.ok(Number(answer.headers['retry-after']) > 0);
});
