// What one job may take of the gateway: bytes, requests at once, connections, the tenant's budget.
import assert from 'node:assert/strict';
import { connect } from 'node:net';
import { test } from 'node:test';
import { setTimeout as sleep } from 'node:timers/promises';
import { createAllowance } from '../../../daemon/gateway/request-body.ts';
import { ask, chat, openGateway, openRequest } from '../../support/gateway.ts';
import { DONE, startUpstream, streamed, usageChunk } from '../../support/upstream.ts';

const user = (content: unknown) => chat({ messages: [{ role: 'user', content }] });

test('a body over the cap is refused readably, sized or chunked', async (t) => {
  const upstream = await startUpstream(t, streamed(DONE));
  const { socketPath } = await openGateway(t, upstream.baseUrl, { limits: { bodyBytes: 50_000 } });
  const big = user('x'.repeat(3_000_000));
  const length = String(Buffer.byteLength(JSON.stringify(big)));
  for (const headers of [{}, { 'content-length': length }, { 'transfer-encoding': 'chunked' }]) {
    const answer = await ask(socketPath, big, { headers });
    assert.equal(answer.status, 413);
    assert.equal(answer.error.code, 'request_too_large');
  }
  assert.equal(upstream.seen.length, 0);
});

test('more requests at once than the job may have are 429 and do not reach the upstream', async (t) => {
  const upstream = await startUpstream(t, async (response) => {
    await sleep(300);
    await streamed(DONE)(response, {} as never);
  });
  const { socketPath } = await openGateway(t, upstream.baseUrl, { limits: { concurrent: 2 } });
  const answers = await Promise.all(Array.from({ length: 6 }, () => ask(socketPath, chat({ stream: true }))));
  const statuses = answers.map(({ status }) => status).sort();
  assert.deepEqual(statuses, [200, 200, 429, 429, 429, 429]);
  assert.equal(upstream.seen.length, 2);
  assert.equal((await ask(socketPath, chat({ stream: true }))).status, 200);
});

test('once the budget is spent requests are 402 and the job is told', async (t) => {
  const upstream = await startUpstream(t, streamed(usageChunk(60, 50), DONE));
  const gateway = await openGateway(t, upstream.baseUrl, {
    onUsage: (_jobId, { inputTokens, outputTokens }) => {
      gateway.remaining.tokens = (gateway.remaining.tokens ?? 0) - inputTokens - outputTokens;
    },
  });
  gateway.remaining.tokens = 100;
  assert.equal((await ask(gateway.socketPath, chat({ stream: true }))).status, 200);
  assert.equal(gateway.remaining.tokens, -10);
  const refused = await ask(gateway.socketPath, chat({ stream: true }));
  assert.equal(refused.status, 402);
  assert.equal(refused.error.type, 'insufficient_quota');
  assert.deepEqual(gateway.budgetSpent, ['job_1']);
  assert.equal(upstream.seen.length, 1);
});

test('requests at once wait for each other instead of spending the same rest of a budget twice', async (t) => {
  let most = 0;
  const upstream = await startUpstream(t, async (response) => {
    most = Math.max(most, upstream.open());
    await sleep(60);
    await streamed(usageChunk(5, 15), DONE)(response, {} as never);
  });
  const gateway = await openGateway(t, upstream.baseUrl, {
    onUsage: async (_jobId, { inputTokens, outputTokens }) => {
      // As slow as a database: an agent that asks the next thing at once must not be taken for one without budget.
      await sleep(60);
      gateway.remaining.tokens = (gateway.remaining.tokens ?? 0) - inputTokens - outputTokens;
    },
  });
  gateway.remaining.tokens = 50;
  const ask5 = Array.from({ length: 5 }, () =>
    ask(gateway.socketPath, chat({ stream: true, max_tokens: 100 })),
  );
  const statuses = (await Promise.all(ask5)).map(({ status }) => status).sort();
  assert.deepEqual(statuses, [200, 200, 200, 402, 402]);
  assert.equal(most, 1);
  assert.equal(gateway.remaining.tokens, -10);
});

test('a model that the job names but no upstream serves is refused', async (t) => {
  const upstream = await startUpstream(t, streamed(DONE));
  const { socketPath } = await openGateway(t, upstream.baseUrl, { upstreamFor: () => null });
  assert.equal((await ask(socketPath, chat())).status, 403);
});

test('a sandbox cannot hold the gateway with connections that send nothing', async (t) => {
  const upstream = await startUpstream(t, streamed(DONE));
  const { socketPath } = await openGateway(t, upstream.baseUrl);
  const sockets = Array.from({ length: 300 }, () => connect(socketPath).on('error', () => undefined));
  const held = () =>
    sockets.filter(({ destroyed, readyState }) => !destroyed && readyState === 'open').length;
  await sleep(300);
  for (let n = 0; n < 100 && held() > 64; n++) await sleep(50);
  assert.ok(held() <= 64, `${held()} connections are held`);
  for (const socket of sockets) socket.destroy();
  await sleep(500);
  const response = await openRequest(socketPath, chat({ stream: true }));
  response.resume();
  assert.equal(response.statusCode, 200);
});

test('the bodies of one job, and of all, are bounded together and given back', async (t) => {
  let release = () => {};
  const upstream = await startUpstream(t, async (response) => {
    await new Promise<void>((resolve) => {
      release = resolve;
    });
    await streamed(DONE)(response, {} as never);
  });
  const limits = { bodyBytes: 300_000, jobBodyBytes: 500_000, allBodyBytes: 650_000, concurrent: 8 };
  const gateway = await openGateway(t, upstream.baseUrl, { limits });
  const other = await openGateway(t, upstream.baseUrl);
  await other.gateway.close(other.job.jobId);
  await gateway.gateway.open({ ...other.job, jobId: 'job_2' });
  const big = user('x'.repeat(250_000));
  const first = ask(gateway.socketPath, big);
  while (upstream.seen.length < 1) await sleep(10);
  const releaseFirst = release;
  const second = await ask(gateway.socketPath, user('x'.repeat(299_000)));
  assert.equal(second.status, 429);
  const foreign = ask(other.socketPath, big);
  while (upstream.seen.length < 2) await sleep(10);
  const third = await ask(other.socketPath, user('x'.repeat(200_000)));
  assert.deepEqual([third.status, third.error.code], [503, 'gateway_unavailable']);
  releaseFirst();
  release();
  assert.deepEqual([(await first).status, (await foreign).status], [200, 200]);
  const again = ask(gateway.socketPath, big);
  while (upstream.seen.length < 3) await sleep(10);
  release();
  assert.equal((await again).status, 200);
  await gateway.gateway.close('job_2');
});

test('an allowance never goes over and takes nothing when it refuses', () => {
  const allowance = createAllowance(10);
  assert.ok(allowance.take(7));
  assert.ok(!allowance.take(4));
  assert.ok(allowance.take(3));
  allowance.giveBack(10);
  assert.ok(allowance.take(10));
});
