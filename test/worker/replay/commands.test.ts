import assert from 'node:assert/strict';
import { execFile, spawn } from 'node:child_process';
import { appendFileSync, copyFileSync, mkdirSync, readdirSync, readFileSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { type TestContext, test } from 'node:test';
import { fileURLToPath } from 'node:url';
import { contentChunk, toolCallChunk } from '../../../worker/index.ts';
import { formatRecord } from '../../../worker/session/record.ts';
import { startFake } from '../scripted-run.ts';
import { buildBundle, bundle, makeFolder, runWorker, startWorker, terminal } from '../worker-process.ts';

const OLD = fileURLToPath(new URL('../session/fixtures/written-by-0.1.0.jsonl', import.meta.url));

interface Ran {
  code: number;
  stdout: string;
  stderr: string;
  // biome-ignore lint/suspicious/noExplicitAny: tests look into lines of any form.
  lines: any[];
}

/** Runs `djinn WORDS…` with no network to speak of: there is no key and no address. */
function djinn(home: string, ...words: string[]): Promise<Ran> {
  buildBundle();
  return new Promise((resolve) => {
    const env = { PATH: process.env.PATH, DJINN_HOME: home };
    execFile(process.execPath, [bundle, ...words], { env }, (error, stdout, stderr) => {
      const lines = stdout.startsWith('{')
        ? stdout
            .trimEnd()
            .split('\n')
            .map((line) => JSON.parse(line))
        : [];
      resolve({ code: error === null ? 0 : Number(error.code), stdout, stderr, lines });
    });
  });
}

/** A home with the session `old`: 4 runs, one of which died in a command. */
function oldHome(t: TestContext): { home: string; path: string } {
  const home = makeFolder(t);
  mkdirSync(join(home, 'sessions'), { mode: 0o700 });
  const path = join(home, 'sessions', 'old.jsonl');
  copyFileSync(OLD, path);
  return { home, path };
}

test('replay prints what the reader of the run had, texts joined, with number, time and prompt', async (t) => {
  const home = makeFolder(t);
  const fake = await startFake(t, ({ index }) =>
    index === 0
      ? { sse: [contentChunk('I '), contentChunk('look. '), toolCallChunk('glob', { pattern: '*' })] }
      : { sse: [contentChunk('No'), contentChunk('thing.')] },
  );
  const live = await runWorker(t, ['-p', 'look', '--session-id', 's'], { home, baseUrl: fake.baseUrl });
  const { lines, code } = await djinn(home, 'replay', 's');
  const joined = live.events.filter(
    (event, index) => live.events[index + 1]?.type !== 'token' || event.type !== 'token',
  );
  assert.equal(code, 0);
  assert.deepEqual(
    lines.map((line) => line.type),
    joined.map((event) => event.type),
  );
  assert.deepEqual(
    lines.filter((line) => line.type === 'token').map((line) => line.text),
    ['I look. ', 'Nothing.'],
  );
  const { record, at, prompt, ...first } = lines[0];
  assert.deepEqual([first, record, prompt], [live.events[0], 1, 'look']);
  assert.ok(Date.parse(at) > 0);
  const { record: _, at: __, ...last } = lines.at(-1);
  assert.deepEqual(last, terminal(live.events));
});

test('in a replay each run has one terminal event, one that died ends with no_end', async (t) => {
  const { home, path } = oldHome(t);
  const { lines, code } = await djinn(home, 'replay', path);
  const ends = lines.filter((line) => line.type === 'done' || line.type === 'error');
  assert.deepEqual(
    [code, ends.map((line) => line.code ?? line.type)],
    [0, ['done', 'no_end', 'done', 'done']],
  );
  assert.equal(lines.filter((line) => line.type === 'session').length, 4);
});

test('replay --speed plays at the pace of the record, and SIGINT ends it with 130', async (t) => {
  const home = makeFolder(t);
  const path = join(home, 'slow.jsonl');
  const at = (seconds: number): string => new Date(Date.UTC(2026, 10, 30) + seconds * 1000).toISOString();
  const run = { sessionId: 'slow', engine: 'djinn', model: 'm', cwd: '/', pid: 1 };
  const fallback = { from: 'a', to: 'b', reason: 'server', message: '' };
  const lines = [
    formatRecord(1, at(0), 'run', run),
    formatRecord(2, at(2), 'fallback', fallback),
    formatRecord(3, at(3600), 'fallback', fallback),
  ];
  writeFileSync(path, `${lines.join('\n')}\n`);
  const began = Date.now();
  const child = spawn(process.execPath, [bundle, 'replay', path, '--speed', '2']);
  let text = '';
  const second = new Promise<void>((resolve) =>
    child.stdout.on('data', (bytes: Buffer) => {
      text += bytes.toString();
      if (text.includes('fallback')) resolve();
    }),
  );
  await second;
  assert.ok(Date.now() - began >= 1000);
  child.kill('SIGINT');
  assert.equal(await new Promise((resolve) => child.on('close', resolve)), 130);
  assert.equal(text.trimEnd().split('\n').length, 2);
});

test('replay --verify exits 0 on a whole record and 1 on a changed one, and names the record', async (t) => {
  const { home, path } = oldHome(t);
  const good = await djinn(home, 'replay', 'old', '--verify');
  assert.deepEqual([good.code, good.lines[0].verified, good.lines[0].problems], [0, 9, []]);
  assert.match(good.stderr, /47 records, 9 of 10 requests verified/);
  writeFileSync(path, readFileSync(path, 'utf8').replace('Go on.', 'Go off'));
  const bad = await djinn(home, 'replay', 'old', '--verify');
  assert.equal(bad.code, 1);
  assert.match(bad.stderr, /after record 28: wrong checksum/);
  assert.equal(bad.lines[0].problems[0].kind, 'damaged');
});

test('a fork goes on from its record; the other session stays as it is', async (t) => {
  const { home, path } = oldHome(t);
  const before = readFileSync(path);
  const { code, lines } = await djinn(home, 'fork', 'old', '--at', '21', '--session-id', 'f');
  assert.deepEqual([code, lines[0].sessionId, lines[0].interrupted], [0, 'f', 0]);
  const fake = await startFake(t, [{ sse: [contentChunk('ok')] }]);
  const end = await runWorker(t, ['-p', 'another way', '--session-id', 'f'], { home, baseUrl: fake.baseUrl });
  assert.equal(terminal(end.events).type, 'done');
  const sent = JSON.stringify(fake.requests[0]?.body.messages);
  assert.ok(sent.includes('Both are fine') && sent.includes('another way') && !sent.includes('Now run'));
  assert.ok(readFileSync(path).equals(before));
  assert.equal((await djinn(home, 'replay', 'f', '--verify')).code, 0);
  assert.deepEqual(readdirSync(join(home, 'sessions')).sort(), ['f.jsonl', 'old.jsonl']);
});

test('a fork at any record gives a session that the strict validator accepts and runs no call again', async (t) => {
  const { home } = oldHome(t);
  const fake = await startFake(t, [{ sse: [contentChunk('ok')] }]);
  for (const at of [3, 5, 6, 9, 14, 15, 17, 25, 26, 27, 36, 37, 44]) {
    const id = `f${at}`;
    const { code } = await djinn(home, 'fork', 'old', '--at', String(at), '--session-id', id);
    const end = await runWorker(t, ['-p', 'go', '--session-id', id], { home, baseUrl: fake.baseUrl });
    assert.deepEqual([code, terminal(end.events).type], [0, 'done'], `at ${at}`);
    assert.ok(!end.events.some((event) => event.type === 'tool_call'), `at ${at}`);
  }
  assert.ok(fake.requests.every((request) => request.problems.length === 0));
});

test('a fork is refused at a record that is not there, and onto a session that is', async (t) => {
  const { home } = oldHome(t);
  for (const [words, message] of [
    [['--at', '48'], /no record 48: the log has 1 to 47/],
    [['--at', '5', '--session-id', 'old'], /a session old already/],
  ] as const) {
    const { code, stderr } = await djinn(home, 'fork', 'old', ...words);
    assert.equal(code, 1);
    assert.match(stderr, message);
  }
  assert.deepEqual(readdirSync(join(home, 'sessions')), ['old.jsonl']);
});

test('sessions lists, shows and exports; the export is the log, byte for byte', async (t) => {
  const { home, path } = oldHome(t);
  await djinn(home, 'fork', 'old', '--at', '26', '--session-id', 'f');
  const { lines } = await djinn(home, 'sessions', '--json');
  const told = lines.map(({ sessionId, state, requests }) => [sessionId, state, requests]);
  assert.deepEqual(told, [
    ['f', 'open', 5],
    ['old', 'done', 10],
  ]);
  assert.deepEqual(lines[0].fork, { from: 'old', at: 26 });
  assert.match((await djinn(home, 'sessions')).stdout, /old {2}Check the files, please\./);
  const shown = await djinn(home, 'sessions', 'show', 'old');
  assert.match(shown.stdout, /^ {4}25 {2}.*assistant +bash/m);
  assert.match(shown.stdout, /^ {4}28\*.*tool_result/m);
  assert.equal((await djinn(home, 'sessions', 'show', 'old', '--json')).lines.length, 47);
  assert.equal((await djinn(home, 'sessions', 'export', 'old')).stdout, readFileSync(path, 'utf8'));
  appendFileSync(path, 'torn');
  const torn = await djinn(home, 'sessions', 'export', 'old');
  assert.deepEqual([torn.code, torn.lines.length], [1, 47]);
  assert.match(torn.stderr, /4 bytes at byte \d+ are left out/);
});

test('a session that runs is shown as running, and is not disturbed', async (t) => {
  const home = makeFolder(t);
  const fake = await startFake(t, [{ sse: [contentChunk('x')], complete: false, hold: true }]);
  const worker = startWorker(t, ['-p', 'x', '--session-id', 's'], { home, baseUrl: fake.baseUrl });
  await worker.seen((event) => event.type === 'token');
  assert.equal((await djinn(home, 'sessions', '--json')).lines[0].state, 'running');
  worker.child.kill('SIGKILL');
  await worker.ended;
  assert.equal((await djinn(home, 'sessions', '--json')).lines[0].state, 'open');
});

test('what a session holds cannot move the cursor or colour the terminal of who lists it', async (t) => {
  const home = makeFolder(t);
  const fake = await startFake(t, [{ sse: [contentChunk('ok \u001b[2J\u009b31m')] }]);
  await runWorker(t, ['-p', 'a\u001b]0;title\u0007\r\nb\u202ec', '--session-id', 's'], {
    home,
    baseUrl: fake.baseUrl,
  });
  for (const words of [['sessions'], ['sessions', 'show', 's']]) {
    const { stdout } = await djinn(home, ...words);
    // biome-ignore lint/suspicious/noControlCharactersInRegex: these are what must not be there.
    assert.ok(!/[\u0000-\u0009\u000b-\u001f\u007f-\u009f\u202e]/.test(stdout), JSON.stringify(stdout));
  }
});

test('wrong usage of a command exits 2, an unknown session 1; each has its help', async (t) => {
  const { home } = oldHome(t);
  for (const words of [
    ['replay'],
    ['replay', 'a', 'b'],
    ['replay', 'old', '--speed', 'fast'],
    ['replay', 'old', '--nonsense'],
    ['fork', 'old'],
    ['fork', 'old', '--at', '0'],
    ['fork', 'old', '--at', '5', '--session-id', '../x'],
    ['sessions', 'drop'],
    ['sessions', 'list', 'old'],
    ['sessions', 'show'],
  ]) {
    const { code, stdout, stderr } = await djinn(home, ...words);
    assert.deepEqual([code, stdout], [2, ''], words.join(' '));
    assert.match(stderr, new RegExp(`^djinn ${words[0]}: .*\\n.*--help`, 's'));
  }
  for (const words of [
    ['replay', 'no'],
    ['fork', 'no', '--at', '1'],
    ['sessions', 'show', './no'],
    ['replay', home],
  ]) {
    assert.equal((await djinn(home, ...words)).code, 1, words.join(' '));
  }
  for (const name of ['replay', 'fork', 'sessions', 'rerun']) {
    const { code, stdout } = await djinn(home, name, '--help');
    assert.ok(code === 0 && stdout.startsWith(`djinn ${name}`));
  }
});
