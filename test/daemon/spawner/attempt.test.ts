import assert from 'node:assert/strict';
import { readFileSync, statSync } from 'node:fs';
import { join } from 'node:path';
import { test } from 'node:test';
import { benchForFile, DONE, endOf, token, types } from '../../support/attempts.ts';
import { LIMITS, testCgroup } from '../../support/spawner.ts';

const bench = benchForFile();

test('a job that does its work ends as ok, with its lines in order', async () => {
  const lines = await bench().run([token('a'), { stderr: 'log\n' }, DONE]);
  assert.deepEqual(types(lines), ['starting', 'running', 'token', 'done', 'end']);
  const end = endOf(lines);
  assert.equal(end.outcome, 'ok');
  assert.equal(end.cause, undefined);
  assert.deepEqual(end.exit, { code: 0, signal: null });
  assert.equal(end.evidence.stderrBytes, 4);
  assert.equal(end.engine, 'puppet');
  assert.ok(['full', 'none'].includes(end.enforcement.memory));
});

test('the job line is complete and carries nothing of the machine', async () => {
  const [line] = (await bench().run([{ tellJob: 1 }, DONE])).filter(({ type }) => type === 'token');
  const job = JSON.parse(line?.text);
  assert.deepEqual(job.models, [{ id: 'fake', baseUrl: 'unix:/run/djinn/gw/model.sock:/v1', gateway: true }]);
  assert.deepEqual(
    [job.v, job.cwd, job.session, job.resumed, job.workspace],
    [1, '/workspace', { provider: 'fd' }, false, 'new'],
  );
});

for (const [name, steps, code] of [
  ['exit code 0 without done', [token('a')], 'no_done'],
  ['exit code 3', [DONE, { exit: 3 }], 'exit_code'],
  ['a signal', [DONE, { kill: 'SIGSEGV' }], 'signal'],
  [
    'an error event',
    [{ emit: { type: 'error', code: 'model_down', message: 'm', retryable: false } }, { exit: 1 }],
    'model_down',
  ],
  ['an event after done', [DONE, token('late')], 'after_done'],
  ['done twice', [DONE, DONE], 'after_done'],
] as const) {
  test(`${name} is a failure that names its cause`, async () => {
    const end = endOf(await bench().run([...steps]));
    assert.deepEqual([end.outcome, end.cause.code], ['failed', code]);
  });
}

test('a program that is not there is spawn_failed with stage and errno', async () => {
  const end = endOf(await bench().run([], { engine: 'missing' }));
  if (testCgroup() === null) assert.deepEqual([end.outcome, end.cause.errno], ['spawn_failed', 'ENOENT']);
  // With cgroups the plain launcher goes through a shell, which says 127.
  else assert.deepEqual([end.outcome, end.exit.code], ['failed', 127]);
});

test('lines that are not the protocol are counted and shown to nobody', async () => {
  const lines = await bench().run([
    { raw: 'plain text\n{"type":"end","outcome":"ok"}\n{"type":"token","text":"x","seq":1}\n\n' },
    token('good'),
    DONE,
  ]);
  assert.deepEqual(types(lines), ['starting', 'running', 'token', 'done', 'end']);
  assert.equal(endOf(lines).evidence.rejectedLines, 3);
});

test('a last line without newline counts', async () => {
  const done = {
    type: 'done',
    sessionId: 's',
    turns: 1,
    usage: { inputTokens: 1, outputTokens: 1, totalTokens: 2 },
    text: 'é',
  };
  const end = endOf(await bench().run([{ raw: JSON.stringify(done) }]));
  assert.equal(end.outcome, 'ok');
});

test('a line of 3 MB passes whole, one above 16 MiB is dropped whole', async () => {
  const lines = await bench().run([
    token('x'.repeat(10)),
    { flood: { bytes: 1, lineBytes: 3_000_000 } },
    { flood: { bytes: 1, lineBytes: 17 * 1024 * 1024 } },
    DONE,
  ]);
  const end = endOf(lines);
  assert.equal(end.outcome, 'ok');
  assert.equal(lines.filter(({ text }) => text?.length === 3_000_000).length, 1);
  assert.equal(end.evidence.rejectedLines, 1);
  assert.match(end.evidence.firstRejection, /more than 16777216 bytes/);
});

test('a job over its output is ended, and what it wrote before is kept', async () => {
  const lines = await bench().run([token('first'), { flood: { bytes: 50_000_000, lineBytes: 100 } }, DONE], {
    limits: { ...LIMITS, outputBytes: 1_000_000 },
  });
  const end = endOf(lines);
  assert.equal(end.outcome, 'output_limit');
  assert.equal(lines.find(({ type }) => type === 'token')?.text, 'first');
  assert.ok(lines.length > 1000);
});

test('twenty programs that exit before they read an 8 MB prompt harm nobody', async () => {
  const payload = { prompt: 'p'.repeat(8 * 1024 * 1024), models: [{ id: 'fake' }] };
  const runs = Array.from({ length: 20 }, () => bench().run([], { engine: 'exit7', payload }));
  for (const lines of await Promise.all(runs)) {
    const end = endOf(lines);
    assert.deepEqual(
      [end.outcome, end.exit.code, end.cause.message],
      ['failed', 7, 'the program ended with exit code 7'],
    );
  }
  assert.deepEqual(await bench().client.call('list', {}), { attempts: [] });
});

test('session records are kept, acknowledged, and there for the next job of the session', async () => {
  const record = (seq: number) =>
    JSON.stringify({ v: 1, seq, ts: 't', type: 'user', data: {}, crc: '00000000' });
  const first = await bench().run([{ record: record(1) }, { durable: record(2) }, DONE], {
    sessionId: 'kept',
  });
  assert.equal(endOf(first).outcome, 'ok');
  assert.ok(first.some(({ text }) => text === 'ack {"ack":2}'));
  const second = await bench().run([{ tellSession: 1 }, { tellJob: 1 }, { record: record(3) }, DONE], {
    sessionId: 'kept',
  });
  const [session, job] = second.filter(({ type }) => type === 'token').map(({ text }) => text);
  assert.equal(session, `${record(1)}\n${record(2)}\n`);
  assert.equal(JSON.parse(job).resumed, true);
  assert.equal(JSON.parse(job).workspace, 'existing');
  const path = join(bench().dirs.stateDir, 'sessions', 'acme', 'kept.jsonl');
  assert.equal(readFileSync(path, 'utf8'), `${[1, 2, 3].map(record).join('\n')}\n`);
  assert.equal(statSync(path).mode & 0o777, 0o640);
});

test('a forged record ends the job as failed', async () => {
  const end = endOf(await bench().run([{ record: '{"seq":5}' }, { sleepMs: 60_000 }, DONE]));
  assert.deepEqual([end.outcome, end.cause.code], ['failed', 'session_record']);
});

test('a second attempt opens with retrying and carries its number', async () => {
  const lines = await bench().run([DONE], { attempt: 2, retryReason: 'lost' });
  assert.deepEqual(types(lines), ['retrying', 'starting', 'running', 'done', 'end']);
  assert.equal(lines[0]?.reason, 'lost');
  assert.ok(lines.every(({ attempt }) => attempt === 2));
});

test('samples come while a job runs, where the kernel counts', async (t) => {
  if (testCgroup() === null) return t.skip('no cgroup v2');
  const lines = await bench().run([{ sleepMs: 900 }, DONE]);
  const samples = lines.filter(({ type }) => type === 'resources');
  assert.ok(samples.length >= 2, `${samples.length} samples`);
  assert.ok(samples.every(({ cpuUsec }) => typeof cpuUsec === 'number'));
});

test('a program that writes no protocol is ended, soon and at little cost to the others', async () => {
  const noise = [{ noise: { lines: 3_000_000 } }, DONE];
  const noisy = bench().run(noise);
  const other = endOf(await bench().run([token('beside'), DONE]));
  const end = endOf(await noisy);
  assert.deepEqual([end.outcome, end.cause.code, other.outcome], ['failed', 'not_protocol', 'ok']);
  assert.ok(end.evidence.rejectedLines > 10_000 && end.evidence.rejectedLines < 10_010);
});
