import assert from 'node:assert/strict';
import { test } from 'node:test';
import { contentChunk, type Guard, type GuardedCall, toolCallChunk } from '../../worker/index.ts';
import { collectRun, endOf, makeTool, resultsOf } from './embedded-run.ts';
import { startFake } from './scripted-run.ts';
import { makeFolder, readSession } from './worker-process.ts';

const ARGUMENTS = '{"path": "a", "nested": {"list": [1, {"deep": true}]}}';
const script = [{ sse: [toolCallChunk('act', ARGUMENTS)] }, { sse: [contentChunk('ok')] }];

function recorder() {
  const ran: Record<string, unknown>[] = [];
  const tool = makeTool('act', 'write', (args) => {
    ran.push(args);
    return { content: 'acted', isError: false };
  });
  return { ran, tool };
}

const silent: Guard = () => undefined;
// @ts-expect-error The type has no way to say "allow".
const allowing: Guard = () => ({ allow: true });
const DENYING: [name: string, guard: unknown, reason: RegExp][] = [
  ['denies', () => ({ deny: 'not here' }), /^not allowed: not here$/],
  ['asks', async () => ({ ask: 'really?' }), /needs a user's consent, and there is no user: really\?/],
  ['throws', () => assert.fail('boom'), /a guard failed: boom/],
  ['rejects', () => Promise.reject(new Error('boom')), /a guard failed: boom/],
  ['says true', () => true, /no clear verdict/],
  ['says null', () => null, /no clear verdict/],
  ['says allow', allowing, /no clear verdict/],
  ['denies without a text', () => ({ deny: true }), /no clear verdict/],
  ['is no function', 'nope', /a guard failed/],
];

for (const [name, guard, reason] of DENYING) {
  test(`a guard that ${name} refuses the call, whatever others say before or after, and leaves a durable record`, async (t) => {
    for (const guards of [[guard], [silent, guard], [guard, silent]] as Guard[][]) {
      const { ran, tool } = recorder();
      const fake = await startFake(t, script);
      const home = makeFolder(t);
      const session = { provider: 'file' as const, dir: `${home}/sessions` };
      const events = await collectRun(t, fake, { tools: [tool], guards, session });
      assert.equal(endOf(events), 'done');
      assert.deepEqual(ran, []);
      const [result] = resultsOf(events);
      assert.equal(result?.isError, true);
      assert.match(result?.content ?? '', reason);
      const records = readSession(home, 's');
      assert.equal(records.find((line) => line.type === 'tool_result')?.data.refused, true);
      assert.equal(records.filter((line) => line.type === 'tool_started').length, 0);
    }
  });
}

test('guards that stay silent let the call run, and see what it is', async (t) => {
  const { ran, tool } = recorder();
  const seen: GuardedCall[] = [];
  const fake = await startFake(t, script);
  const guard: Guard = (call) => {
    seen.push(call);
    return undefined;
  };
  const cwd = makeFolder(t);
  await collectRun(t, fake, { tools: [tool], guards: [guard, silent], cwd });
  assert.deepEqual(ran, [JSON.parse(ARGUMENTS)]);
  const { signal, ...call } = seen[0] as GuardedCall;
  assert.ok(signal instanceof AbortSignal);
  assert.deepEqual(call, {
    sessionId: 's',
    id: 'call_act_0',
    name: 'act',
    effect: 'write',
    arguments: JSON.parse(ARGUMENTS),
    cwd,
  });
});

test('a guard cannot alter the arguments: not those that run, not those of the event, not those that the next guard sees', async (t) => {
  const { ran, tool } = recorder();
  const fake = await startFake(t, script);
  const meddle: Guard = (call) => {
    for (const change of [
      () => Object.assign(call.arguments, { path: '/etc/passwd' }),
      () => Object.assign((call.arguments.nested as { list: unknown[] }).list, ['x']),
      () => Object.assign(call, { name: 'other' }),
    ]) {
      assert.throws(change, TypeError);
    }
    return undefined;
  };
  let second: unknown;
  const look: Guard = (call) => {
    second = call.arguments;
    return undefined;
  };
  const events = await collectRun(t, fake, { tools: [tool], guards: [meddle, look] });
  assert.deepEqual([ran[0], second], [JSON.parse(ARGUMENTS), JSON.parse(ARGUMENTS)]);
  const call = events.find((event) => event.type === 'tool_call');
  assert.equal(call?.type === 'tool_call' && call.arguments, ARGUMENTS);
});

test('a guard that never answers does not keep a cancelled run, and its call does not run', async (t) => {
  const { ran, tool } = recorder();
  const fake = await startFake(t, script);
  const controller = new AbortController();
  const hang: Guard = () => {
    setTimeout(() => controller.abort(), 50);
    return new Promise(() => {});
  };
  const events = await collectRun(t, fake, { tools: [tool], guards: [hang], signal: controller.signal });
  assert.equal(endOf(events), 'cancelled');
  assert.deepEqual(ran, []);
});

test('guards are asked for the built-in tools too, and a denied one has no effect', async (t) => {
  const cwd = makeFolder(t);
  const fake = await startFake(t, [
    {
      sse: [
        toolCallChunk('write_file', { path: 'a', content: 'x' }),
        toolCallChunk('glob', {}, { index: 1 }),
      ],
    },
    { sse: [contentChunk('ok')] },
  ]);
  const guard: Guard = ({ effect }) => (effect === 'pure' ? undefined : { deny: 'reading only' });
  const events = await collectRun(t, fake, { cwd, guards: [guard] });
  assert.deepEqual(
    resultsOf(events).map((event) => [event.name, event.isError, event.content]),
    [
      ['write_file', true, 'not allowed: reading only'],
      ['glob', false, '[no files match]'],
    ],
  );
});

test('a guard is not asked for a call that cannot run anyway', async (t) => {
  let asked = 0;
  const guard: Guard = () => {
    asked += 1;
    return undefined;
  };
  const fake = await startFake(t, [
    { sse: [toolCallChunk('act', '{"half": '), toolCallChunk('nope', {}, { index: 1 })] },
    { sse: [contentChunk('ok')] },
  ]);
  const { tool } = recorder();
  assert.equal(resultsOf(await collectRun(t, fake, { tools: [tool], guards: [guard] })).length, 2);
  assert.equal(asked, 0);
});
