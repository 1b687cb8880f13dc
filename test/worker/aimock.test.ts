// Our client against a fake server that others wrote: what a server sends is not decided by our own fake alone.
import assert from 'node:assert/strict';
import { type TestContext, test } from 'node:test';
import { LLMock, type MockServerOptions } from '@copilotkit/aimock';
import { runHere } from './scripted-run.ts';
import { makeFolder, runWorker, terminal } from './worker-process.ts';

async function startMock(t: TestContext, options: MockServerOptions = {}): Promise<LLMock> {
  const mock = new LLMock({ port: 0, logLevel: 'silent', ...options });
  await mock.start();
  t.after(() => mock.stop());
  return mock;
}

const lastRole = (role: string) => ({
  predicate: (request: { messages: { role: string }[] }) => request.messages.at(-1)?.role === role,
});

test('a whole job as a process: text, two parallel calls in small pieces, their results, the final answer', async (t) => {
  const mock = await startMock(t, { chunkSize: 3 });
  const calls = [
    { id: 'call_1', name: 'glob', arguments: '{"pattern":"**/*"}' },
    { name: 'write_file', arguments: JSON.stringify({ path: 'out.txt', content: 'grüße 北🌍\n' }) },
  ];
  mock.on(lastRole('user'), { content: 'let me look', toolCalls: calls, reasoning: 'hm, a file' });
  mock.on(lastRole('tool'), {
    content: 'Hallo 北🌍 “done”',
    usage: { prompt_tokens: 100, completion_tokens: 7 },
  });
  const home = makeFolder(t);
  const end = await runWorker(t, ['-p', 'write a file'], { home, baseUrl: `${mock.url}/v1` });
  const last = terminal(end.events);
  assert.ok(last.type === 'done', JSON.stringify(last));
  assert.deepEqual([end.code, last.text, last.turns], [0, 'Hallo 北🌍 “done”', 2]);
  assert.ok(last.usage.inputTokens >= 100 && last.usage.outputTokens >= 7);
  assert.deepEqual(
    end.events.filter((one) => one.type === 'tool_result').map((one) => one.isError),
    [false, false],
  );
  const request = mock.getLastRequest();
  assert.ok(request);
  const { messages } = request.body as unknown as { messages: Record<string, unknown>[] };
  assert.deepEqual(
    messages.map((message) => message.role),
    ['system', 'user', 'assistant', 'tool', 'tool'],
  );
  assert.equal(messages[2]?.reasoning_content, 'hm, a file');
});

test('one error of each kind is followed by the answer, or moves on, or ends the run as it should', async (t) => {
  const mock = await startMock(t);
  mock.onMessage('hello', { content: 'fine' });
  const baseUrl = `${mock.url}/v1`;
  const table: [number, { message?: string; code?: string }, string][] = [
    [429, { message: 'slow down', code: 'rate_limit_exceeded' }, 'fine'],
    [503, { message: 'overloaded' }, 'fine'],
    [401, { message: 'Incorrect API key', code: 'invalid_api_key' }, 'model_auth'],
    [429, { message: 'no money', code: 'insufficient_quota' }, 'model_quota'],
    [400, { message: 'no such parameter' }, 'model_bad_request'],
  ];
  for (const [status, body, outcome] of table) {
    mock.nextRequestError(status, body);
    assert.equal((await runHere(t, baseUrl)).outcome, outcome, `${status} ${body.code}`);
  }
});

test('an answer that it cuts or stalls is never taken for a whole one', async (t) => {
  const mock = await startMock(t, { chunkSize: 2 });
  mock.onMessage('cut', { content: 'this will not come whole' }, { truncateAfterChunks: 3 });
  mock.onMessage('slow', { content: 'late' }, { latency: 1500 });
  const baseUrl = `${mock.url}/v1`;
  const cut = await runHere(t, baseUrl, { prompt: 'cut' });
  assert.match(cut.outcome, /^model_(early_end|network)$/);
  assert.ok(!cut.records.some((line) => line.type === 'assistant'));
  assert.equal((await runHere(t, baseUrl, { prompt: 'slow', idleTimeoutMs: 300 })).outcome, 'model_stall');
});
