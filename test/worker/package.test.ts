// The package as others get it: packed, installed, run. Node 20 follows in test/full.
import assert from 'node:assert/strict';
import { readdirSync, statSync } from 'node:fs';
import { join } from 'node:path';
import { test } from 'node:test';
import { fetchNode } from './nodes.ts';
import { checkOnNode, checkTypes, makeConsumer, readExamples } from './package-consumer.ts';

const OLDEST = '18.17.1';

test('the docs have examples in CommonJS, in ES modules and in TypeScript', () => {
  const endings = readExamples().map(({ name }) => name.split('.').at(-1));
  for (const ending of ['cjs', 'mjs', 'mts']) assert.ok(endings.includes(ending), ending);
});

test('the package, packed and installed elsewhere', async (t) => {
  const folder = await makeConsumer(t);
  const installed = join(folder, 'node_modules/@djinn/runtime');
  assert.deepEqual(readdirSync(installed).sort(), ['LICENSE', 'README.md', 'dist', 'package.json']);
  t.diagnostic(
    `dist/djinn.cjs has ${Math.round(statSync(join(installed, 'dist/djinn.cjs')).size / 1024)} KiB`,
  );
  await t.test('has types for require and for import', () => checkTypes(folder));
  await t.test('runs with its examples on this Node', () => checkOnNode(folder, process.execPath));
  await t.test(`runs with its examples on Node ${OLDEST}`, async (t) => {
    const node = await fetchNode(OLDEST).catch((error: Error) => error);
    if (node instanceof Error) t.skip(`Node ${OLDEST} cannot be had from npm: ${node.message}`);
    else await checkOnNode(folder, node);
  });
});
