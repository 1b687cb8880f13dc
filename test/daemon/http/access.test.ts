// Every route × every kind of key × own, another's and an unknown id (C149), generated from the routes themselves.
import assert from 'node:assert/strict';
import { randomBytes } from 'node:crypto';
import { type TestContext, test } from 'node:test';
import { type Answer, call, startServer, type TestServer } from '../../support/http-server.ts';

type KeyName = keyof TestServer['keys'];

interface Route {
  method: string;
  path: string;
  body?: object;
  /** Whether the path names a job or a tenant. */
  names: 'job' | 'tenant' | 'nothing';
  roles: KeyName[];
}

const ANY: KeyName[] = ['a', 'adminA', 'b', 'platform', 'operator'];
const OPERATOR: KeyName[] = ['operator'];
const ROUTES: Route[] = [
  {
    method: 'POST',
    path: '/v1/jobs',
    body: { prompt: 'x' },
    names: 'nothing',
    roles: ['a', 'adminA', 'b', 'platform'],
  },
  { method: 'GET', path: '/v1/jobs', names: 'nothing', roles: ANY },
  { method: 'GET', path: '/v1/jobs/{jobId}', names: 'job', roles: ANY },
  { method: 'GET', path: '/v1/jobs/{jobId}/events', names: 'job', roles: ANY },
  { method: 'POST', path: '/v1/jobs/{jobId}/cancel', names: 'job', roles: ANY },
  { method: 'POST', path: '/v1/tenants', body: { tenantId: 'TN' }, names: 'nothing', roles: OPERATOR },
  { method: 'GET', path: '/v1/tenants', names: 'nothing', roles: OPERATOR },
  { method: 'GET', path: '/v1/tenants/{tenantId}', names: 'tenant', roles: OPERATOR },
  { method: 'PATCH', path: '/v1/tenants/{tenantId}', body: { pids: 9 }, names: 'tenant', roles: OPERATOR },
  { method: 'GET', path: '/v1/tenants/{tenantId}/keys', names: 'tenant', roles: OPERATOR },
  {
    method: 'POST',
    path: '/v1/tenants/{tenantId}/keys',
    body: { role: 'caller' },
    names: 'tenant',
    roles: OPERATOR,
  },
  { method: 'DELETE', path: '/v1/tenants/{tenantId}/keys/{keyId}', names: 'tenant', roles: OPERATOR },
];

const concrete = (path: string, ids: Record<string, string>) =>
  path.replaceAll(/\{(\w+)\}/g, (_all, name: string) => ids[name] ?? 'key_unknown');

async function startJobs(t: TestContext) {
  const server = await startServer(t);
  const make = async (key: string) => {
    const { json } = await call(server, 'POST', '/v1/jobs', {
      key,
      body: { prompt: 'hi' },
      headers: { prefer: 'respond-async' },
    });
    server.jobs.all.at(-1)?.end();
    return String(json.jobId);
  };
  return { server, ofA: await make(server.keys.a), ofB: await make(server.keys.b) };
}

/** What a caller can tell from an answer, apart from what differs for every request. */
const visible = ({ status, json, headers }: Answer) => {
  const { requestId: _, ...rest } = json;
  return JSON.stringify({ status, rest, type: headers['content-type'], names: Object.keys(headers).sort() });
};

test('the table names every documented route below /v1/', async (t) => {
  const { server } = await startServer(t);
  const paths = server.app.swagger().paths ?? {};
  const documented = Object.entries(paths).flatMap(([path, methods]) =>
    Object.keys(methods as object).map((method) => `${method.toUpperCase()} ${path}`),
  );
  const listed = ROUTES.map(({ method, path }) => `${method} ${path}`);
  assert.deepEqual(documented.filter((one) => one.includes('/v1/')).sort(), listed.sort());
});

test('no route answers a missing, malformed, unknown, revoked or misplaced key, and all say the same', async (t) => {
  const { server, ofA } = await startJobs(t);
  const { a } = server.keys;
  const unknown = `djk_${randomBytes(32).toString('base64url')}`;
  const headers: Record<string, string>[] = [
    {},
    { authorization: '' },
    { authorization: 'Bearer' },
    { authorization: `Bearer ${unknown}` },
    { authorization: `Basic ${a}` },
    { authorization: a },
    { authorization: `Bearer ${a}x` },
    { authorization: `Bearer ${a.slice(0, -1)}` },
    { authorization: `Bearer ${a}, Bearer ${a}` },
    { authorization: 'Bearer djk_' },
    { authorization: `Bearer djk_${'x'.repeat(5000)}` },
    { authorization: `Bearer ${a.toLowerCase()}` },
    { 'x-api-key': a },
    { cookie: `authorization=Bearer ${a}` },
  ];
  const seen = new Set<string>();
  for (const { method, path, body } of ROUTES) {
    for (const header of headers) {
      const url = concrete(path, { jobId: ofA, tenantId: 'TA' });
      const answer = await call(server, method, url, { body, headers: header });
      assert.equal(answer.status, 401, `${method} ${url} ${JSON.stringify(header).slice(0, 60)}`);
      assert.equal(answer.headers['www-authenticate'], 'Bearer realm="djinnd"');
      assert.ok(!answer.text.includes(a) && !answer.text.includes(unknown));
      seen.add(visible(answer));
    }
    const inQuery = await call(server, method, `${concrete(path, { jobId: ofA })}?access_token=${a}`, {
      body,
    });
    assert.equal(inQuery.status, 401);
  }
  assert.equal(seen.size, 1);
  server.directory.revokeAll();
  const revoked = await call(server, 'GET', `/v1/jobs/${ofA}`, { key: a });
  assert.deepEqual([visible(revoked)], [...seen]);
});

test('each role reaches its own routes only', async (t) => {
  const { server, ofA } = await startJobs(t);
  for (const { method, path, body, roles } of ROUTES) {
    for (const name of ANY) {
      const url = concrete(path, { jobId: ofA, tenantId: 'TA' });
      const needsTenant = name === 'platform' && path === '/v1/jobs' && method === 'POST';
      const answer = await call(server, method, url, {
        key: server.keys[name],
        body: needsTenant ? { ...body, tenantId: 'TA' } : body,
        headers: { prefer: 'respond-async' },
      });
      const refused = answer.status === 403;
      assert.equal(refused, !roles.includes(name), `${name} ${method} ${url} got ${answer.status}`);
    }
  }
});

test('another tenant’s job is answered exactly like one that does not exist or cannot', async (t) => {
  const { server, ofA, ofB } = await startJobs(t);
  const random = `job_${randomBytes(12).toString('base64url')}`;
  const impossible = [
    'x',
    'job_',
    "job_'--",
    '..%2f..',
    '%00',
    'job_%00',
    `job_${'x'.repeat(100)}`,
    ofA.toUpperCase(),
  ];
  const foreign: [KeyName, string][] = [
    ['a', ofB],
    ['adminA', ofB],
    ['b', ofA],
    ['platform', ofB],
  ];
  for (const { method, path, names, body } of ROUTES) {
    if (names !== 'job') continue;
    for (const [name, other] of foreign) {
      const ask = (jobId: string) =>
        call(server, method, concrete(path, { jobId }), { key: server.keys[name], body });
      const expected = visible(await ask(random));
      assert.match(expected, /"status":404/);
      for (const jobId of [other, ...impossible]) {
        assert.equal(visible(await ask(jobId)), expected, `${name} ${method} ${path} ${jobId}`);
      }
    }
  }
  assert.equal(server.jobs.all[0]?.view.outcome, 'ok');
});

test('an id that cannot exist does not even reach the jobs', async (t) => {
  const { server } = await startJobs(t);
  const reached: string[] = [];
  for (const method of ['get', 'cancel', 'events'] as const) {
    const real = server.jobs[method];
    server.jobs[method] = ((...parameters: Parameters<typeof real>) => {
      reached.push(method);
      return (real as (...all: unknown[]) => unknown)(...parameters);
    }) as never;
  }
  for (const jobId of ['x', '%00', 'job_%00', "job_'--", `job_${'x'.repeat(65)}`]) {
    for (const path of [`/v1/jobs/${jobId}`, `/v1/jobs/${jobId}/events`]) {
      assert.equal((await call(server, 'GET', path, { key: server.keys.a })).status, 404);
    }
    await call(server, 'POST', `/v1/jobs/${jobId}/cancel`, { key: server.keys.a });
  }
  assert.deepEqual(reached, []);
});

test('a stored key whose hash is another one admits nobody', async (t) => {
  const { server } = await startJobs(t);
  const find = server.directory.keys.find;
  server.directory.keys.find = async (sha256) => {
    const found = await find(sha256);
    return found === null ? null : { ...found, sha256: randomBytes(32) };
  };
  assert.equal((await call(server, 'GET', '/v1/jobs', { key: server.keys.a })).status, 401);
});

test('a tenant named in a header or in the query changes nothing', async (t) => {
  const { server } = await startJobs(t);
  for (const header of ['x-tenant-id', 'tenantid', 'tenant', 'x-djinnd-tenant']) {
    const list = await call(server, 'GET', '/v1/jobs', { key: server.keys.a, headers: { [header]: 'TB' } });
    assert.deepEqual(
      (list.json.jobs as { tenantId: string }[]).map(({ tenantId }) => tenantId),
      ['TA'],
    );
  }
  const query = await call(server, 'GET', '/v1/jobs?tenantId=TB', { key: server.keys.adminA });
  assert.equal(query.status, 400);
  const post = await call(server, 'POST', '/v1/jobs?tenantId=TB', {
    key: server.keys.a,
    body: { prompt: 'x' },
    headers: { prefer: 'respond-async' },
  });
  assert.equal(post.status, 400);
});

test('keys made over HTTP work at once, for their tenant only, and not after they were revoked', async (t) => {
  const { server, ofA, ofB } = await startJobs(t);
  const { operator } = server.keys;
  const made = await call(server, 'POST', '/v1/tenants/TB/keys', {
    key: operator,
    body: { role: 'tenant_admin' },
  });
  assert.equal(made.status, 201);
  assert.equal(made.headers['cache-control'], 'no-store');
  const secret = String(made.json.secret);
  assert.equal((await call(server, 'GET', `/v1/jobs/${ofB}`, { key: secret })).status, 200);
  assert.equal((await call(server, 'GET', `/v1/jobs/${ofA}`, { key: secret })).status, 404);
  const listed = await call(server, 'GET', '/v1/tenants/TB/keys', { key: operator });
  assert.ok(!listed.text.includes(secret));
  const gone = await call(server, 'DELETE', `/v1/tenants/TB/keys/${made.json.keyId}`, { key: operator });
  assert.equal(gone.status, 204);
  assert.equal((await call(server, 'GET', `/v1/jobs/${ofB}`, { key: secret })).status, 401);
  const missing = await call(server, 'POST', '/v1/tenants/none/keys', {
    key: operator,
    body: { role: 'caller' },
  });
  assert.equal(missing.status, 404);
  assert.ok(!server.log.join('').includes(secret));
});

test('operators create, read and change tenants', async (t) => {
  const { server } = await startJobs(t);
  const { operator: key } = server.keys;
  const made = await call(server, 'POST', '/v1/tenants', { key, body: { tenantId: 'new', maxRunning: 2 } });
  assert.equal(made.status, 201);
  assert.equal(made.headers.location, '/v1/tenants/new');
  assert.equal(made.json.maxRunning, 2);
  const twice = await call(server, 'POST', '/v1/tenants', { key, body: { tenantId: 'new' } });
  assert.equal(twice.json.code, 'DJ_CONFLICT');
  const changed = await call(server, 'PATCH', '/v1/tenants/new', {
    key,
    body: { monthlyTokens: null, wbbEngine: 'other' },
  });
  assert.equal(changed.json.wbbEngine, 'other');
  assert.deepEqual((await call(server, 'GET', '/v1/tenants/new', { key })).json, changed.json);
  for (const body of [
    {},
    { pids: '9' },
    { pids: -1 },
    { tenantId: 'x' },
    { network: ['a'] },
    { wbbEngine: 'A b' },
  ]) {
    assert.equal(
      (await call(server, 'PATCH', '/v1/tenants/new', { key, body })).status,
      400,
      JSON.stringify(body),
    );
  }
});
