// Lanes: one at a time per tenant and in order, few in all, a bounded wait, and a failure holds nobody up.
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { setTimeout as sleep } from 'node:timers/promises';
import { createLanes } from '../../../daemon/jobs/lanes.ts';

test('one tenant runs one at a time in order, all together at most the given number', async () => {
  const lanes = createLanes(3, 100);
  const running = new Map<string, number>();
  let all = 0;
  let most = 0;
  const order: string[] = [];
  const work = (tenant: string, name: string) => async () => {
    running.set(tenant, (running.get(tenant) ?? 0) + 1);
    most = Math.max(most, ++all);
    assert.equal(running.get(tenant), 1);
    await sleep(2);
    order.push(name);
    running.set(tenant, 0);
    all -= 1;
    if (name === 'a1') throw new Error('a1 failed');
    return name;
  };
  const results = await Promise.allSettled(
    ['a', 'b', 'c', 'd', 'e'].flatMap((tenant) =>
      [0, 1, 2].map((n) => lanes.run(tenant, work(tenant, `${tenant}${n}`))),
    ),
  );
  assert.equal(most, 3);
  assert.deepEqual(
    order.filter((name) => name.startsWith('a')),
    ['a0', 'a1', 'a2'],
  );
  assert.equal(results.filter(({ status }) => status === 'rejected').length, 1);
});

test('beyond the bound a tenant is turned away, others are not', async () => {
  const lanes = createLanes(2, 2);
  const held = [1, 2, 3].map(() => lanes.run('a', () => sleep(10)));
  assert.equal(
    lanes.run('a', () => sleep(0)),
    null,
  );
  assert.notEqual(
    lanes.run('b', () => sleep(0)),
    null,
  );
  await Promise.all(held);
  assert.notEqual(
    lanes.run('a', () => sleep(0)),
    null,
  );
});
