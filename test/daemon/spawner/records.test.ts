import assert from 'node:assert/strict';
import { once } from 'node:events';
import { mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { connect, createServer, type Socket } from 'node:net';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { after, test } from 'node:test';
import { openSessionFile, RecordRefused, readFrames, takeRecords } from '../../../daemon/spawner/records.ts';
import { newActivity } from '../../../daemon/spawner/streams.ts';

const dir = mkdtempSync(join(tmpdir(), 'djinnd-records-'));
after(() => rmSync(dir, { recursive: true, force: true }));
let count = 0;
function freshName(): string {
  count += 1;
  return String(count);
}
const freshPath = () => join(dir, `${freshName()}.jsonl`);
const record = (seq: number) =>
  `{"v":1,"seq":${seq},"ts":"t","type":"user","data":{"é":"\u2028"},"crc":"00000000"}`;

/** A connected pair of sockets, as descriptor 3 is one. */
async function socketPair(): Promise<[Socket, Socket]> {
  const path = join(dir, `${freshName()}.sock`);
  const server = createServer({ allowHalfOpen: true });
  server.listen(path);
  await once(server, 'listening');
  const client = connect(path);
  const [other] = (await once(server, 'connection')) as [Socket];
  server.close();
  return [client, other];
}

async function feed(
  path: string,
  text: string,
  maxBytes = 1e9,
): Promise<{ answers: string; error: unknown }> {
  const [program, spawner] = await socketPair();
  let answers = '';
  program.on('data', (chunk) => (answers += chunk.toString()));
  program.on('error', () => {});
  const file = openSessionFile(path, null);
  const taken = takeRecords(spawner, newActivity(), file, maxBytes).then(
    () => null,
    (error: unknown) => error,
  );
  const closed = once(program, 'close');
  program.end(text);
  const error = await taken;
  spawner.destroySoon();
  await closed;
  file.close();
  return { answers, error };
}

test('records are stored byte for byte and durable ones are answered', async () => {
  const path = freshPath();
  const { answers, error } = await feed(path, `+${record(1)}\n!${record(2)}\n+${record(3)}\n!${record(4)}\n`);
  assert.equal(error, null);
  assert.equal(readFileSync(path, 'utf8'), `${[1, 2, 3, 4].map(record).join('\n')}\n`);
  assert.equal(answers, '{"ack":2}\n{"ack":4}\n');
});

test('the next run continues the numbering of the session', async () => {
  const path = freshPath();
  await feed(path, `+${record(1)}\n`);
  assert.equal((await feed(path, `+${record(2)}\n`)).error, null);
  const { error } = await feed(path, `+${record(4)}\n`);
  assert.ok(error instanceof RecordRefused);
  assert.equal(readFileSync(path, 'utf8'), `${[1, 2].map(record).join('\n')}\n`);
});

for (const [name, frame] of Object.entries({
  'a frame without mark': record(2),
  'a number that comes again': `+${record(1)}`,
  'a number that leaves one out': `+${record(3)}`,
  'a record without seq': '+{"type":"user"}',
  'a record whose seq is no integer': '+{"seq":1.5}',
  'a record that is no object': '+[2]',
  'a record that is no JSON': '+{"seq":2',
  'an empty frame': '',
})) {
  test(`${name} is refused; what came before it stays`, async () => {
    const path = freshPath();
    const { error } = await feed(path, `+${record(1)}\n${frame}\n+${record(2)}\n`);
    assert.ok(error instanceof RecordRefused, String(error));
    assert.equal(readFileSync(path, 'utf8'), `${record(1)}\n`);
  });
}

test('a frame cut by the death of the program is dropped', async () => {
  const path = freshPath();
  const { error } = await feed(path, `+${record(1)}\n+${record(2).slice(0, 20)}`);
  assert.equal(error, null);
  assert.equal(readFileSync(path, 'utf8'), `${record(1)}\n`);
});

test('a half record that a dead spawner left is cut at the next opening, at every byte', () => {
  const path = freshPath();
  const whole = Buffer.from(`${record(1)}\n${record(2)}\n`);
  for (let cut = 0; cut <= whole.length; cut += 1) {
    writeFileSync(path, whole.subarray(0, cut));
    const file = openSessionFile(path, null);
    const kept = whole.subarray(0, cut).toString().split('\n').length - 1;
    assert.equal(file.lastSeq, kept);
    file.close();
    assert.equal(
      readFileSync(path, 'utf8'),
      [1, 2]
        .slice(0, kept)
        .map((seq) => `${record(seq)}\n`)
        .join(''),
    );
  }
});

test('records beyond the bound of the run are refused', async () => {
  const { error } = await feed(freshPath(), `+${record(1)}\n`, 20);
  assert.match(String(error), /at most 20 bytes/);
});

test('a program that never reads its answers is not read without end', async () => {
  const [program, spawner] = await socketPair();
  program.on('error', () => {});
  const file = openSessionFile(freshPath(), null);
  const taken = takeRecords(spawner, newActivity(), file, 1e9);
  let sent = 0;
  for (; sent < 20_000; sent += 1) {
    const more = program.write(
      Array.from({ length: 50 }, (_, n) => `!{"seq":${sent * 50 + n + 1}}\n`).join(''),
    );
    if (more) continue;
    const drained = await Promise.race([
      once(program, 'drain').then(() => true),
      new Promise((r) => setTimeout(r, 500, false)),
    ]);
    if (!drained) break;
  }
  assert.ok(sent < 20_000, 'the program was stopped by back-pressure');
  assert.ok(spawner.writableLength < 1024 * 1024);
  program.destroy();
  await taken.catch(() => {});
  file.close();
});

test('the good frames of a block are told apart from the first wrong one', () => {
  const batch = readFrames(Buffer.from(`+${record(1)}\n!${record(2)}\n?\n`), 0);
  assert.equal(batch.records.length, 2);
  assert.deepEqual(batch.acks, [2]);
  assert.ok(batch.refusal !== null);
});
