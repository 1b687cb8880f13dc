import assert from 'node:assert/strict';
import { execFile, spawn } from 'node:child_process';
import { existsSync, mkdirSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { test } from 'node:test';
import { setTimeout as sleep } from 'node:timers/promises';
import { promisify } from 'node:util';
import { contentChunk, toolCallChunk } from '../../worker/index.ts';
import { readJob } from '../../worker/job-input.ts';
import { startFake } from './scripted-run.ts';
import {
  buildBundle,
  bundle,
  makeFolder,
  parseEvents,
  runWorker,
  startWorker,
  terminal,
} from './worker-process.ts';

const execute = promisify(execFile);

test('wrong usage exits 2, says so on stderr and leaves one error event on stdout', async (t) => {
  const home = makeFolder(t);
  const wrong = [
    [],
    ['-p', ' '],
    ['-p', 'x', '--nonsense'],
    ['-p', 'x', '--session-id', '../x'],
    ['-p', 'x', '--system-prompt-file', '/does/not/exist'],
    ['-p', 'x', '--redo', 'perhaps'],
    ['-p', 'x', '--deny-tools', 'bash,wirte_file'],
    ['-p', 'x', '--tools', 'Bash'],
    ['--job', 'file.json'],
    ['hello'],
  ];
  const ends = await Promise.all(wrong.map((args) => runWorker(t, args, { home })));
  for (const [index, end] of ends.entries()) {
    const last = terminal(end.events);
    assert.deepEqual(
      [end.code, last.type === 'error' ? last.code : last],
      [2, 'usage'],
      JSON.stringify(wrong[index]),
    );
    assert.match(end.stderr, /--help/);
  }
});

test('without a key the error says what to set', async (t) => {
  const end = await runWorker(t, ['-p', 'x'], { home: makeFolder(t), env: { DJINN_API_KEY: '' } });
  assert.equal(end.code, 2);
  assert.match(end.stderr, /DJINN_API_KEY/);
});

test('--help and --version answer and exit 0', async () => {
  buildBundle();
  assert.match((await execute(process.execPath, [bundle, '--help'])).stdout, /--session-id/);
  assert.match((await execute(process.execPath, [bundle, '--version'])).stdout, /^\d+\.\d+\.\d+\n$/);
});

test('a prompt may begin with a dash, and the system prompt comes from a file', async (t) => {
  const fake = await startFake(t, [{ sse: [contentChunk('ok')] }]);
  const home = makeFolder(t);
  const file = join(home, 'system.txt');
  writeFileSync(file, 'Be brief.');
  const end = await runWorker(t, ['-p', '- list', '--system-prompt-file', file, '--model', 'mx'], {
    home,
    baseUrl: fake.baseUrl,
  });
  assert.equal(end.code, 0);
  assert.deepEqual(fake.requests[0]?.body.messages, [
    { role: 'system', content: 'Be brief.' },
    { role: 'user', content: '- list' },
  ]);
  assert.equal(fake.requests[0]?.body.model, 'mx');
});

test('--tools, --deny-tools and --read-only narrow what the model is shown and may call', async (t) => {
  const home = makeFolder(t);
  const shown = async (...args: string[]): Promise<string[]> => {
    const fake = await startFake(t, [
      { sse: [toolCallChunk('bash', { command: 'touch ran' })] },
      { sse: [contentChunk('ok')] },
    ]);
    const end = await runWorker(t, ['-p', 'x', ...args], { home, baseUrl: fake.baseUrl });
    const result = end.events.find((event) => event.type === 'tool_result');
    assert.ok(
      result?.type === 'tool_result' && result.isError && /there is no tool "bash"/.test(result.content),
    );
    return fake.requests[0]?.body.tools
      .map((tool: { function: { name: string } }) => tool.function.name)
      .sort();
  };
  assert.deepEqual(await shown('--tools', 'grep,glob'), ['glob', 'grep']);
  assert.deepEqual(await shown('--tools', 'grep,bash', '--deny-tools', 'bash'), ['grep']);
  assert.deepEqual(await shown('--read-only'), ['glob', 'grep', 'read_file', 'read_image']);
  assert.ok(!existsSync(join(home, 'ran')));
});

test('`-p -` reads the prompt from stdin to its end', async (t) => {
  const fake = await startFake(t, [{ sse: [contentChunk('ok')] }]);
  const worker = startWorker(t, ['-p', '-'], {
    home: makeFolder(t),
    baseUrl: fake.baseUrl,
    stdio: ['pipe', 'pipe', 'pipe'],
  });
  worker.child.stdin?.write('two\nli');
  await sleep(50);
  worker.child.stdin?.end('nes');
  assert.equal((await worker.ended).code, 0);
  assert.equal(fake.requests[0]?.body.messages.at(-1).content, 'two\nlines');
});

test('C031: images of results follow in one user message after all tool messages', async (t) => {
  const home = makeFolder(t);
  const png =
    'iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNk+M9QDwADhgGAWjR9awAAAABJRU5ErkJggg==';
  writeFileSync(join(home, 'ok.png'), Buffer.from(png, 'base64'));
  writeFileSync(join(home, 'a.txt'), 'text\n');
  const fake = await startFake(t, [
    {
      sse: [
        toolCallChunk('read_image', { path: 'ok.png' }),
        toolCallChunk('read_file', { path: 'a.txt' }, { index: 1 }),
      ],
    },
    { sse: [contentChunk('ok')] },
  ]);
  const end = await runWorker(t, ['-p', 'x'], { home, baseUrl: fake.baseUrl });
  assert.equal(end.code, 0);
  const messages: { role: string; content: unknown }[] = fake.requests[1]?.body.messages;
  assert.deepEqual(
    messages.slice(1).map((message) => message.role),
    ['user', 'assistant', 'tool', 'tool', 'user'],
  );
  assert.match(JSON.stringify(messages.at(-1)), /data:image\/png;base64,/);
});

test('a session folder that cannot be written ends with a storage error', async (t) => {
  const fake = await startFake(t, [{ sse: [contentChunk('ok')] }]);
  const home = makeFolder(t);
  mkdirSync(join(home, 'sessions', 's.jsonl'), { recursive: true });
  const end = await runWorker(t, ['-p', 'x', '--session-id', 's'], { home, baseUrl: fake.baseUrl });
  const last = terminal(end.events);
  assert.deepEqual([end.code, last.type === 'error' ? last.code : last], [1, 'storage']);
});

test('a job line is checked field by field', () => {
  const job = {
    v: 1,
    jobId: 'job_1',
    attempt: 1,
    sessionId: 's',
    engine: 'djinn',
    prompt: 'x',
    models: [{ id: 'm', baseUrl: 'unix:/s:/v1', gateway: true }],
    cwd: '/',
    session: { provider: 'fd' },
    resumed: false,
    workspace: 'new',
    future: 1,
  };
  assert.equal(readJob(JSON.stringify(job)).models?.[0]?.gateway, true);
  const wrong: [string, unknown][] = [
    ['v', 2],
    ['prompt', 5],
    ['models', []],
    ['models', [{ id: 'm' }]],
    ['attempt', 0],
    ['images', [{ mediaType: 'image/bmp', data: '' }]],
    ['tools', { allow: 'bash' }],
    ['sandboxMode', 'off'],
    ['redo', 'perhaps'],
    ['session', { provider: 'file' }],
  ];
  for (const [name, value] of wrong) {
    assert.throws(() => readJob(JSON.stringify({ ...job, [name]: value })), new RegExp(`job\\.${name}`));
  }
  assert.throws(() => readJob('{'), /not valid JSON/);
});

test('a worker started without descriptors for its records says so', async () => {
  buildBundle();
  const child = spawn(process.execPath, [bundle, '--job', '-'], { stdio: ['pipe', 'pipe', 'ignore'] });
  let text = '';
  child.stdout.on('data', (bytes: Buffer) => {
    text += bytes.toString();
  });
  child.stdin.end('{"v":1}\n');
  const code = await new Promise((resolve) => child.on('close', resolve));
  const last = terminal(parseEvents(text));
  assert.deepEqual([code, last.type === 'error' ? last.code : last], [1, 'bad_job']);
});
