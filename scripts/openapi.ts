// Writes openapi.json from the routes; with --check only compares, and exits 1 on a difference.
import { readFileSync, writeFileSync } from 'node:fs';
import { pino } from 'pino';
import { renderDocument } from '../daemon/http/openapi.ts';
import { buildHttp } from '../daemon/http/server.ts';

const root = new URL('../', import.meta.url);
const target = new URL('openapi.json', root);
const { version } = JSON.parse(readFileSync(new URL('package.json', root), 'utf8')) as { version: string };

/** Routes are only described here, never called. */
const unused = new Proxy(
  {},
  { get: () => () => Promise.reject(new Error('only the document is made here')) },
);
const server = await buildHttp({
  jobs: unused as never,
  keys: unused as never,
  tenants: unused as never,
  metrics: unused as never,
  enforcement: () => null,
  log: pino({ level: 'silent' }),
  version,
});
const document = renderDocument(server.app);
await server.stop(0);

if (!process.argv.includes('--check')) {
  writeFileSync(target, document);
} else if (readCommitted() !== document) {
  console.error('openapi.json differs from the routes: run "node scripts/openapi.ts" and commit it');
  process.exitCode = 1;
}

function readCommitted(): string {
  try {
    return readFileSync(target, 'utf8');
  } catch {
    return '';
  }
}
