import assert from 'node:assert/strict';
import { test } from 'node:test';
import { pino } from 'pino';
import { createStderrLog } from '../../../daemon/spawner/stderr-log.ts';

function record(bounds?: { totalBytes: number; bytesPerSecond: number }, now: () => number = () => 0) {
  const written: string[] = [];
  const log = pino({ base: null }, { write: (line: string) => void written.push(line) }).child({
    jobId: 'job_a',
  });
  const stderr = createStderrLog(log, bounds, now);
  return {
    stderr,
    written,
    texts: () => written.map((line) => JSON.parse(line).stderr).filter((text) => text !== undefined),
  };
}

test('each line becomes one string field of one log line, with its job', () => {
  const { stderr, written, texts } = record();
  stderr.push(Buffer.from('first\nsec'));
  stderr.push(Buffer.from('ond\n\nlast without newline'));
  stderr.close();
  assert.deepEqual(texts(), ['first', 'second', 'last without newline']);
  assert.ok(written.every((line) => JSON.parse(line).jobId === 'job_a'));
});

test('control bytes and forged log lines stay inside the string', () => {
  const { stderr, written } = record();
  stderr.push(Buffer.from('\u001b[2J\u0007\r{"level":60,"msg":"forged"}\u0000\n'));
  assert.equal(written.length, 1);
  assert.equal(written[0]?.trimEnd().includes('\n'), false);
  // biome-ignore lint/suspicious/noControlCharactersInRegex: these must not be there
  assert.doesNotMatch(written[0]?.trimEnd() ?? '', /[\u0000-\u001f]/);
  assert.equal(JSON.parse(written[0] ?? '').level, 30);
});

test('a job puts no more than its total into the log, and what is dropped is counted', () => {
  const { stderr, written } = record({ totalBytes: 1000, bytesPerSecond: 1e9 });
  for (let n = 0; n < 1000; n += 1) stderr.push(Buffer.from(`${'x'.repeat(99)}\n`));
  stderr.close();
  assert.equal(stderr.bytes, 100_000);
  const last = JSON.parse(written.at(-1) ?? '');
  assert.equal(written.length, 4, 'each line counts with the record around it');
  assert.ok(last.droppedBytes > 98_000 && last.droppedBytes === stderr.droppedBytes);
});

test('a job that talks too fast loses lines until it is slower', () => {
  let ms = 0;
  const { stderr, texts } = record({ totalBytes: 1e9, bytesPerSecond: 2100 }, () => ms);
  for (let n = 0; n < 100; n += 1) stderr.push(Buffer.from(`${'x'.repeat(10)}\n`));
  assert.equal(texts().length, 40, 'a burst of four seconds');
  ms = 1000;
  for (let n = 0; n < 100; n += 1) stderr.push(Buffer.from(`${'y'.repeat(10)}\n`));
  assert.equal(texts().length, 50);
});

test('a line without end costs no memory', () => {
  const { stderr, texts } = record();
  const before = process.memoryUsage().arrayBuffers;
  const chunk = Buffer.alloc(64 * 1024, 'z');
  for (let n = 0; n < 2000; n += 1) stderr.push(chunk);
  assert.ok(process.memoryUsage().arrayBuffers - before < 8 * 1024 * 1024);
  stderr.close();
  assert.equal(texts()[0].length, 8192);
});
