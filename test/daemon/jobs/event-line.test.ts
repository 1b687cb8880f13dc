// Event lines as bytes: numbers, closing lines, and what must not pass for one; cursors.
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { parseEventCursor } from '../../../daemon/jobs/cursor.ts';
import { closingOf, ownEndLine, queuedLine, seqAt } from '../../../daemon/jobs/event-line.ts';

const head = '"ts":"2026-01-01T00:00:00.000Z","jobId":"job_a","attempt":1';
const closing = (line: string) =>
  closingOf(Buffer.from(`{"seq":1,${head},"type":"token","text":"x"}\n${line}\n`), 'job_a', 1);

test('end and lost lines close the attempt', () => {
  assert.equal(closing(`{"seq":2,${head},"type":"end","outcome":"ok"}`)?.kind, 'end');
  assert.equal(closing(`{"seq":7,${head},"type":"job","state":"lost","reason":"x"}`)?.kind, 'lost');
  assert.equal(closing(`{"seq":7,${head},"type":"job","state":"lost"}`)?.seq, 7);
});

test('nothing else does: other types and states, other jobs and attempts, doubled keys, torn lines', () => {
  for (const line of [
    `{"seq":2,${head},"type":"job","state":"running"}`,
    `{"seq":2,${head},"type":"token","text":"\\"type\\":\\"end\\""}`,
    `{"seq":2,${head},"type":"end"}`,
    `{"seq":2,${head},"type":"end","outcome":"ok","type":"token"}`,
    `{"seq":2,${head.replace('job_a', 'job_b')},"type":"end","outcome":"ok"}`,
    `{"seq":2,${head.replace('"attempt":1', '"attempt":11')},"type":"end","outcome":"ok"}`,
    `{"seq":2,${head},"type":"end","outcome":"ok"`,
    `{"type":"end","outcome":"ok","seq":2,${head}}`,
    ' ',
  ]) {
    assert.equal(closing(line), null, line);
  }
});

test('the number of a line is read from its first bytes, or is not there', () => {
  assert.equal(seqAt(Buffer.from('{"seq":42,"x":1}'), 0), 42);
  assert.equal(seqAt(Buffer.from('xx{"seq":7}'), 2), 7);
  for (const line of ['', '{"seq":', '{"seq":x', '{"seq": 1', '{"sex":1', '{"seq":99999999999999999999,']) {
    assert.equal(seqAt(Buffer.from(line), 0), -1, line);
  }
});

test('lines of djinnd itself are valid JSON with cursor 0-0 and <attempt>-1', () => {
  const row = { jobId: 'job_a', sessionId: 'ses_1', createdAt: new Date(0), attempt: 0, engine: null };
  const queued = JSON.parse(queuedLine(row).toString());
  assert.deepEqual(
    [queued.attempt, queued.seq, queued.type, queued.state, queued.sessionId],
    [0, 0, 'job', 'queued', 'ses_1'],
  );
  assert.deepEqual(queuedLine(row), queuedLine(row));
  const end = JSON.parse(ownEndLine(row, 'cancelled', { code: 'c', message: 'm' }).toString());
  assert.deepEqual([end.attempt, end.seq, end.type, end.outcome], [1, 1, 'end', 'cancelled']);
  assert.equal(closingOf(ownEndLine(row, 'lost', { code: 'c', message: 'm' }), 'job_a', 1)?.kind, 'end');
});

test('cursors: what is not of the form is refused', () => {
  assert.deepEqual(parseEventCursor('1-42'), { attempt: 1, seq: 42 });
  for (const text of [
    '',
    '1',
    '1-',
    '-1',
    '1--1',
    '-1-1',
    '1-01',
    '01-1',
    '1-1 ',
    'a-b',
    '1-1e3',
    '1-99999999999999999',
  ]) {
    assert.throws(() => parseEventCursor(text), { code: 'DJ_CURSOR_INVALID', status: 400 }, text);
  }
});
