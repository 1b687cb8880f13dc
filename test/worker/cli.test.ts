import assert from 'node:assert/strict';
import { execFile, spawn } from 'node:child_process';
import { existsSync, mkdirSync, readFileSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { type TestContext, test } from 'node:test';
import { setTimeout as sleep } from 'node:timers/promises';
import { promisify } from 'node:util';
import {
  contentChunk,
  type FakeOpenAI,
  type Script,
  stall,
  startFakeOpenAI,
  toolCallChunk,
} from '../../worker/index.ts';
import { readJob } from '../../worker/job-input.ts';
import {
  buildBundle,
  bundle,
  makeFolder,
  parseEvents,
  readSession,
  runWorker,
  startWorker,
  terminal,
} from './worker-process.ts';

const execute = promisify(execFile);

async function startFake(t: TestContext, script: Script): Promise<FakeOpenAI> {
  const fake = await startFakeOpenAI(script);
  t.after(() => fake.stop());
  return fake;
}

function isAlive(pid: number): boolean {
  try {
    process.kill(pid, 0);
    return !readFileSync(`/proc/${pid}/stat`, 'utf8').includes(') Z ');
  } catch {
    return false;
  }
}

test('wrong usage exits 2, says so on stderr and leaves one error event on stdout', async (t) => {
  const home = makeFolder(t);
  const wrong = [
    [],
    ['-p', ' '],
    ['-p', 'x', '--nonsense'],
    ['-p', 'x', '--session-id', '../x'],
    ['-p', 'x', '--system-prompt-file', '/does/not/exist'],
    ['-p', 'x', '--redo', 'perhaps'],
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

for (const [signal, code, errorCode] of [
  ['SIGINT', 130, 'interrupted'],
  ['SIGTERM', 143, 'terminated'],
] as const) {
  test(`${signal} during a tool exits ${code} with an error event, the session on disk and no tool left`, async (t) => {
    const fake = await startFake(t, [
      {
        sse: [
          toolCallChunk('bash', {
            command: 'sleep 987 & echo $! > pids; echo $$ >> pids; trap "" TERM INT; sleep 988',
          }),
        ],
      },
      { sse: [contentChunk('ok')] },
    ]);
    const home = makeFolder(t);
    const worker = startWorker(t, ['-p', 'go', '--session-id', 's'], { home, baseUrl: fake.baseUrl });
    const pidFile = join(home, 'pids');
    for (let tries = 0; tries < 500; tries += 1) {
      if (existsSync(pidFile) && readFileSync(pidFile, 'utf8').split('\n').length > 2) break;
      await sleep(20);
    }
    worker.child.kill(signal);
    const end = await worker.ended;
    const last = terminal(end.events);
    assert.deepEqual(
      [end.code, end.signal, last.type === 'error' ? last.code : last],
      [code, null, errorCode],
    );
    const pids = readFileSync(pidFile, 'utf8').trim().split('\n').map(Number);
    assert.equal(pids.length, 2);
    for (const pid of pids) assert.ok(!isAlive(pid), `process ${pid} is alive`);
    assert.deepEqual(
      readSession(home, 's')
        .slice(-2)
        .map((line) => line.type),
      ['tool_result', 'end'],
    );
    const resumed = await runWorker(t, ['-p', 'go on', '--session-id', 's'], { home, baseUrl: fake.baseUrl });
    assert.equal(resumed.code, 0);
    assert.ok(fake.requests.every((request) => request.problems.length === 0));
  });

  test(`${signal} during a model request and while waiting for a job exits ${code}`, async (t) => {
    const fake = await startFake(t, [stall()]);
    const home = makeFolder(t);
    const asking = startWorker(t, ['-p', 'go'], { home, baseUrl: fake.baseUrl });
    for (let tries = 0; tries < 500 && fake.requests.length === 0; tries += 1) await sleep(20);
    asking.child.kill(signal);
    const waiting = startWorker(t, ['--job', '-'], { home, stdio: ['pipe', 'pipe', 'pipe'] });
    await sleep(1000);
    waiting.child.kill(signal);
    for (const end of await Promise.all([asking.ended, waiting.ended])) {
      const last = terminal(end.events);
      assert.deepEqual([end.code, last.type === 'error' ? last.code : last], [code, errorCode]);
    }
  });
}

test('C097: a 3 MB answer comes whole through a reader that sleeps first', async (t) => {
  buildBundle();
  const fake = await startFake(t, [{ sse: [contentChunk('北'.repeat(1_000_000))] }]);
  const home = makeFolder(t);
  const env = { PATH: process.env.PATH, DJINN_HOME: home, DJINN_API_KEY: 'k', DJINN_API_BASE: fake.baseUrl };
  const command = `set -o pipefail; "${process.execPath}" "${bundle}" -p x | (sleep 2; cat) > out; echo $?`;
  const { stdout } = await execute('bash', ['-c', command], { cwd: home, env });
  assert.equal(stdout.trim(), '0');
  const last = terminal(parseEvents(readFileSync(join(home, 'out'), 'utf8')));
  assert.equal(last.type === 'done' ? last.text.length : last, 1_000_000);
});

test('C101: an open stdin that says nothing is not read', async (t) => {
  const fake = await startFake(t, [{ sse: [contentChunk('ok')] }]);
  const home = makeFolder(t);
  const worker = startWorker(t, ['-p', 'x'], {
    home,
    baseUrl: fake.baseUrl,
    stdio: ['pipe', 'pipe', 'pipe'],
  });
  assert.equal((await worker.ended).code, 0);
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

test('a reader that goes away ends the run with 1, its tools gone and the session on disk', async (t) => {
  const fake = await startFake(t, [
    { sse: Array.from({ length: 2000 }, () => contentChunk('x'.repeat(100))), pauseMs: 1 },
  ]);
  const home = makeFolder(t);
  const worker = startWorker(t, ['-p', 'x', '--session-id', 's'], { home, baseUrl: fake.baseUrl });
  await worker.seen((event) => event.type === 'token');
  worker.child.stdout?.destroy();
  const code = await new Promise((resolve) => worker.child.on('exit', resolve));
  assert.equal(code, 1);
  assert.equal(readSession(home, 's').at(-1)?.data.code, 'output_closed');
});

test('C044: a second worker on a session is refused quickly and clearly', async (t) => {
  const fake = await startFake(t, [stall()]);
  const home = makeFolder(t);
  const first = startWorker(t, ['-p', 'x', '--session-id', 's'], { home, baseUrl: fake.baseUrl });
  await first.seen((event) => event.type === 'session');
  const second = await runWorker(t, ['-p', 'y', '--session-id', 's'], { home, baseUrl: fake.baseUrl });
  const last = terminal(second.events);
  assert.deepEqual([second.code, last.type === 'error' ? last.code : last], [1, 'session_busy']);
  first.child.kill('SIGKILL');
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
