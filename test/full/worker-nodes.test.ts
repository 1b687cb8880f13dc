// The packed runtime on every version of Node that it promises to run on.
import { test } from 'node:test';
import { fetchNode } from '../worker/nodes.ts';
import { checkOnNode, makeConsumer } from '../worker/package-consumer.ts';

for (const version of ['18.17.1', '20.20.2', '24.22.3']) {
  test(`the packed package and its examples run on Node ${version}`, async (t) => {
    await checkOnNode(await makeConsumer(t), await fetchNode(version));
  });
}
