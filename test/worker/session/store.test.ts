import assert from 'node:assert/strict';
import { type ChildProcess, spawn } from 'node:child_process';
import {
  appendFileSync,
  existsSync,
  mkdirSync,
  readdirSync,
  readFileSync,
  statSync,
  symlinkSync,
  writeFileSync,
} from 'node:fs';
import { join } from 'node:path';
import type { Duplex } from 'node:stream';
import { type TestContext, test } from 'node:test';
import { fileURLToPath } from 'node:url';
import { openFileStore } from '../../../worker/session/file.ts';
import { createRecordKeeper } from '../record-keeper.ts';
import { makeFolder } from '../worker-process.ts';

const childPath = fileURLToPath(new URL('./store-child.ts', import.meta.url));
type Provider = 'file' | 'fd';
const PROVIDERS: Provider[] = ['file', 'fd'];

interface Result {
  found: [number, { text: string }][];
  count: number;
  damage: { offset: number; reason: string }[];
  seqs: number[];
  error?: string;
  message?: string;
}

/** Where each provider's log of session `s` lies. */
const logPath = (dir: string): string => join(dir, 's.jsonl');

function start(
  t: TestContext,
  provider: Provider,
  dir: string,
  task: { texts: string[]; durable?: boolean; hold?: boolean },
): { child: ChildProcess; result: Promise<Result>; ended: Promise<unknown>; durable: number[] } {
  const keeper = createRecordKeeper(logPath(dir));
  const fd = provider === 'fd' ? keeper.open() : 'ignore';
  const child = spawn(process.execPath, [childPath, JSON.stringify({ provider, dir, ...task })], {
    stdio: ['ignore', 'pipe', 'inherit', provider === 'fd' ? 'pipe' : 'ignore', fd],
  });
  if (typeof fd === 'number') {
    keeper.attach(child.stdio[3] as Duplex);
    keeper.close(fd);
  }
  t.after(() => child.kill('SIGKILL'));
  const result = new Promise<Result>((resolve, reject) => {
    let text = '';
    child.stdout?.on('data', (bytes: Buffer) => {
      text += bytes.toString('utf8');
      if (text.endsWith('\n')) resolve(JSON.parse(text) as Result);
    });
    child.on('close', (code) => reject(new Error(`no answer, code ${code}`)));
  });
  const ended = new Promise((resolve) => child.on('close', resolve));
  const whole = task.hold === true ? result : Promise.all([result, ended]).then(([value]) => value);
  return { child, result: whole, ended, durable: keeper.durable };
}

const texts = (result: Result): string[] => result.found.map(([, data]) => data.text);

for (const provider of PROVIDERS) {
  test(`${provider}: records come back in order and numbering goes on`, async (t) => {
    const dir = makeFolder(t);
    const first = await start(t, provider, dir, { texts: ['a', '北\n🌍'] }).result;
    assert.deepEqual([first.count, first.seqs], [0, [1, 2]]);
    const second = await start(t, provider, dir, { texts: ['c'] }).result;
    assert.deepEqual([texts(second), second.seqs, second.damage], [['a', '北\n🌍'], [3], []]);
  });

  test(`${provider}: a durable record is written whole before append resolves`, async (t) => {
    const dir = makeFolder(t);
    const holder = start(t, provider, dir, { texts: ['a', 'b'], durable: true, hold: true });
    await holder.result;
    holder.child.kill('SIGKILL');
    assert.equal(readFileSync(logPath(dir), 'utf8').split('\n').length, 3);
    if (provider === 'fd') assert.deepEqual(holder.durable, [1, 2]);
  });

  test(`${provider}: C032: whatever is left of a torn last record, the records before it count`, async (t) => {
    const dir = makeFolder(t);
    await start(t, provider, dir, { texts: ['a', 'b', 'last…北'] }).result;
    const whole = readFileSync(logPath(dir));
    const lastStart = whole.lastIndexOf('\n', whole.length - 2) + 1;
    const tornInCharacter = whole.indexOf(Buffer.from('北')) + 1;
    for (const length of [lastStart + 1, tornInCharacter, whole.length - 2]) {
      writeFileSync(logPath(dir), whole.subarray(0, length));
      const result = await start(t, provider, dir, { texts: [] }).result;
      assert.deepEqual(texts(result), ['a', 'b']);
      assert.equal(result.damage[0]?.offset, lastStart);
      assert.ok(readFileSync(logPath(dir)).subarray(0, lastStart).equals(whole.subarray(0, lastStart)));
    }
  });

  test(`${provider}: C034: a last record without its newline is kept`, async (t) => {
    const dir = makeFolder(t);
    await start(t, provider, dir, { texts: ['a', 'b'] }).result;
    writeFileSync(logPath(dir), readFileSync(logPath(dir)).subarray(0, -1));
    const result = await start(t, provider, dir, { texts: [] }).result;
    assert.deepEqual([texts(result), result.damage], [['a', 'b'], []]);
  });

  test(`${provider}: a damaged or repeated record in the middle is left out and reported`, async (t) => {
    const dir = makeFolder(t);
    await start(t, provider, dir, { texts: ['a', 'b', 'c'] }).result;
    const lines = readFileSync(logPath(dir), 'utf8').split('\n');
    const damaged = [lines[0], lines[0], lines[1]?.replace('"b"', '"B"'), '', '\0\0\0', lines[2], ''];
    writeFileSync(logPath(dir), damaged.join('\n'));
    const result = await start(t, provider, dir, { texts: [] }).result;
    assert.deepEqual(texts(result), ['a', 'c']);
    assert.deepEqual(
      result.damage.map((one) => one.reason),
      ['seq does not rise', 'wrong checksum', 'no checksum'],
    );
  });
}

for (const provider of PROVIDERS) {
  test(`${provider}: the number of a damaged last record is not given again`, async (t) => {
    const dir = makeFolder(t);
    await start(t, provider, dir, { texts: ['a', 'b'] }).result;
    writeFileSync(logPath(dir), readFileSync(logPath(dir), 'utf8').replace('"b"', '"B"'));
    const result = await start(t, provider, dir, { texts: ['c'] }).result;
    assert.deepEqual([texts(result), result.seqs], [['a'], [3]]);
  });
}

test('file: after a torn tail the next record has a line of its own, and the tail is kept aside', async (t) => {
  const dir = makeFolder(t);
  await start(t, 'file', dir, { texts: ['a', 'b'] }).result;
  appendFileSync(logPath(dir), '{"v":1,"seq":3,"ts":"2026');
  const result = await start(t, 'file', dir, { texts: ['c'] }).result;
  assert.deepEqual(result.seqs, [3]);
  assert.deepEqual(texts(await start(t, 'file', dir, { texts: [] }).result), ['a', 'b', 'c']);
  assert.equal(readFileSync(`${logPath(dir)}.torn`, 'utf8'), '{"v":1,"seq":3,"ts":"2026\n');
});

test('file: C034: the record after one without newline begins on a new line', async (t) => {
  const dir = makeFolder(t);
  await start(t, 'file', dir, { texts: ['a'] }).result;
  writeFileSync(logPath(dir), readFileSync(logPath(dir)).subarray(0, -1));
  await start(t, 'file', dir, { texts: ['b'] }).result;
  const result = await start(t, 'file', dir, { texts: [] }).result;
  assert.deepEqual([texts(result), result.damage], [['a', 'b'], []]);
});

test('file: C044: a second writer is refused at once; the lock of a killed one is taken over', async (t) => {
  const dir = makeFolder(t);
  const holder = start(t, 'file', dir, { texts: ['a'], hold: true });
  await holder.result;
  const refused = await start(t, 'file', dir, { texts: ['b'] }).result;
  assert.equal(refused.error, 'busy');
  assert.match(refused.message ?? '', new RegExp(`process ${holder.child.pid}`));
  holder.child.kill('SIGKILL');
  await holder.ended;
  const next = await start(t, 'file', dir, { texts: ['b'] }).result;
  assert.deepEqual([texts(next), next.seqs], [['a'], [2]]);
});

test('file: of many openers at once on a stale lock exactly one writes', async (t) => {
  const dir = makeFolder(t);
  const holder = start(t, 'file', dir, { texts: ['a'], hold: true });
  await holder.result;
  holder.child.kill('SIGKILL');
  await holder.ended;
  const racers = [0, 1, 2, 3, 4].map((n) => start(t, 'file', dir, { texts: [`r${n}`], hold: true }));
  const results = await Promise.all(racers.map((racer) => racer.result));
  const writers = results.filter((result) => result.error === undefined);
  for (const racer of racers) racer.child.kill('SIGKILL');
  await Promise.all(racers.map((racer) => racer.ended));
  const log = await start(t, 'file', dir, { texts: [] }).result;
  assert.deepEqual([writers.length, log.found.length, log.damage], [1, 2, []]);
});

test('file: a writer whose lock was taken over stops at its next record', async (t) => {
  const { openFileStore } = await import('../../../worker/session/file.ts');
  const dir = makeFolder(t);
  const store = openFileStore({ dir, sessionId: 's', onRecord: () => {} });
  await store.append('user', { text: 'a' });
  const { unlinkSync } = await import('node:fs');
  unlinkSync(join(dir, 's.lock'));
  symlinkSync('2,1,,other,,token', join(dir, 's.lock'));
  await assert.rejects(store.append('user', { text: 'b' }), { code: 'lost' });
  await store.close();
  assert.ok(readdirSync(dir).includes('s.lock'));
});

test('file: C050: log, lock and folder are for their owner alone, whatever the umask', async (t) => {
  const dir = join(makeFolder(t), 'deep', 'sessions');
  const before = process.umask(0);
  t.after(() => process.umask(before));
  const { openFileStore } = await import('../../../worker/session/file.ts');
  const store = openFileStore({ dir, sessionId: 's', onRecord: () => {} });
  await store.append('user', { text: 'a' });
  await store.close();
  appendFileSync(logPath(dir), 'torn');
  await openFileStore({ dir, sessionId: 's', onRecord: () => {} }).close();
  assert.equal(statSync(dir).mode & 0o777, 0o700);
  for (const name of readdirSync(dir)) assert.equal(statSync(join(dir, name)).mode & 0o777, 0o600, name);
});

test('file: a link in place of the log is not followed', async (t) => {
  const dir = makeFolder(t);
  mkdirSync(join(dir, 'x'));
  symlinkSync(join(dir, 'x', 'target'), logPath(dir));
  const result = await start(t, 'file', dir, { texts: ['a'] }).result;
  assert.equal(result.error, 'storage');
  assert.ok(!existsSync(join(dir, 'x', 'target')));
});

test('a damaged line that claims an absurd number does not make the records after it unreadable', async (t) => {
  const dir = makeFolder(t);
  const open = () => openFileStore({ dir, sessionId: 's', onRecord: () => {} });
  const first = await open();
  await first.append('user', { text: 'one' });
  await first.close();
  const path = join(dir, 's.jsonl');
  appendFileSync(path, `{"v":1,"seq":${Number.MAX_SAFE_INTEGER},"ts":"x","type":"user","data":{},"crc":1}\n`);
  for (const text of ['two', 'three']) {
    const store = await open();
    await store.append('user', { text });
    await store.close();
  }
  const texts: unknown[] = [];
  const last = await openFileStore({
    dir,
    sessionId: 's',
    onRecord: (record) => texts.push((record.data as { text: string }).text),
  });
  await last.close();
  assert.deepEqual(texts, ['one', 'two', 'three']);
});
