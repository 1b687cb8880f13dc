// The OpenAPI document, the docs page and the health routes.
import assert from 'node:assert/strict';
import { readFileSync } from 'node:fs';
import { test } from 'node:test';
import { renderDocument } from '../../../daemon/http/openapi.ts';
import { call, startServer } from '../../support/http-server.ts';

const root = new URL('../../../', import.meta.url);

test('the committed openapi.json is the one the routes make', async (t) => {
  const { version } = JSON.parse(readFileSync(new URL('package.json', root), 'utf8'));
  const server = await startServer(t, { version });
  const committed = readFileSync(new URL('openapi.json', root), 'utf8');
  assert.equal(
    renderDocument(server.server.app),
    committed,
    'run "node scripts/openapi.ts" and commit openapi.json',
  );
  const served = await call(server, 'GET', '/openapi.json');
  assert.deepEqual(served.json, JSON.parse(committed));
});

test('every operation below /v1/ asks for a key, documents its refusals and has a summary', async (t) => {
  const server = await startServer(t);
  const paths = server.server.app.swagger().paths ?? {};
  for (const [path, operations] of Object.entries(paths)) {
    for (const operation of Object.values(
      operations as Record<string, { summary?: string; security?: unknown; responses: object }>,
    )) {
      assert.ok(operation.summary, path);
      if (!path.startsWith('/v1/')) continue;
      assert.deepEqual(operation.security, [{ key: [] }], path);
      assert.ok('401' in operation.responses, path);
    }
  }
});

test('the docs page and all it refers to come from here', async (t) => {
  const server = await startServer(t);
  const page = await call(server, 'GET', '/docs');
  assert.equal(page.status, 200);
  const policy = page.headers['content-security-policy'] ?? '';
  assert.match(policy, /default-src 'none'/);
  assert.doesNotMatch(policy, /https?:|unsafe-eval|\*/);
  const references = [...page.text.matchAll(/(?:src|href)="([^"]+)"/g)].map(
    ([, reference]) => reference ?? '',
  );
  assert.ok(references.length >= 4);
  for (const reference of references) {
    assert.doesNotMatch(reference, /^(https?:)?\/\//);
    const asset = await call(server, 'GET', new URL(reference, `${server.url}/docs`).pathname);
    assert.equal(asset.status, 200, reference);
  }
  const missing = await call(server, 'GET', '/docs/static/nothing.js');
  assert.equal(missing.status, 404);
  assert.equal(missing.headers['content-type'], 'application/problem+json');
});

test('readyz is 503 with its reasons and the enforcement until everything is there', async (t) => {
  const report = {
    mode: 'strict',
    refused: true,
    reason: 'memory is not enforced',
    hierarchy: 'hybrid',
    kernel: '6.1',
    controls: {},
  } as const;
  let enforcement: unknown = null;
  const server = await startServer(t, { enforcement: () => enforcement as never });
  const away = await call(server, 'GET', '/readyz');
  assert.equal(away.status, 503);
  assert.equal(away.headers['content-type'], 'application/problem+json');
  assert.equal(away.json.code, 'DJ_NOT_READY');
  assert.deepEqual(away.json.reasons, ['the spawner is not connected']);
  enforcement = report;
  const refused = await call(server, 'GET', '/readyz');
  assert.equal(refused.status, 503);
  assert.deepEqual(refused.json.reasons, ['memory is not enforced']);
  assert.deepEqual(refused.json.enforcement, report);
  enforcement = { ...report, mode: 'best-effort', refused: false };
  server.jobs.ready = { ready: false, reasons: ['the database is not reachable'] };
  const database = await call(server, 'GET', '/readyz');
  assert.deepEqual([database.status, database.json.reasons], [503, ['the database is not reachable']]);
  server.jobs.ready = { ready: true, reasons: [] };
  const ready = await call(server, 'GET', '/readyz');
  assert.deepEqual([ready.status, ready.json.ready, ready.json.reasons], [200, true, []]);
  const head = await call(server, 'HEAD', '/readyz');
  assert.deepEqual([head.status, head.text], [200, '']);
  assert.deepEqual((await call(server, 'GET', '/healthz')).json, { status: 'ok' });
});
