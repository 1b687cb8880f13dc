// Reading again from a cursor (C116), as NDJSON and as server-sent events.
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { wrapLines } from '../../../daemon/http/sse.ts';
import { call, openStream, startServer, type TestServer } from '../../support/http-server.ts';
import type { MemoryJob } from '../../support/memory-jobs.ts';

async function startJob(server: TestServer): Promise<MemoryJob> {
  await call(server, 'POST', '/v1/jobs', {
    key: server.keys.a,
    body: { prompt: 'hi' },
    headers: { prefer: 'respond-async' },
  });
  const job = server.jobs.all.at(-1);
  assert.ok(job);
  return job;
}

const cursorOf = (line: string) => {
  const { attempt, seq } = JSON.parse(line) as { attempt: number; seq: number };
  return `${attempt}-${seq}`;
};

test('from every cursor, running or ended, the rest follows without gap or repetition', async (t) => {
  const server = await startServer(t);
  const job = await startJob(server);
  const { keys } = server;
  const path = `/v1/jobs/${job.view.jobId}/events`;
  job.emit(...Array.from({ length: 8 }, (_, n) => ({ type: 'token', text: `t${n}` })));
  const cursors = job.lines.map(cursorOf);
  const live = await Promise.all(
    cursors.map((after) => openStream(server, 'GET', `${path}?after=${after}&follow=true`, { key: keys.a })),
  );
  job.emit({ type: 'token', text: 'late' });
  job.end();
  for (const [index, stream] of live.entries()) {
    assert.equal(await stream.over, true);
    assert.equal(
      stream.lines.join('\n'),
      job.lines
        .slice(index + 1)
        .join('')
        .trimEnd(),
    );
  }
  for (const [index, line] of job.lines.entries()) {
    const again = await call(server, 'GET', `${path}?after=${cursorOf(line)}`, { key: keys.a });
    assert.equal(again.status, 200);
    assert.equal(again.text, job.lines.slice(index + 1).join(''));
  }
  const whole = await call(server, 'GET', path, { key: keys.a });
  assert.equal(whole.text, job.lines.join(''));
});

test('without follow the present is answered although the job goes on', async (t) => {
  const server = await startServer(t);
  const job = await startJob(server);
  job.emit({ type: 'token', text: 'x' });
  const answer = await call(server, 'GET', `/v1/jobs/${job.view.jobId}/events?follow=false`, {
    key: server.keys.a,
  });
  assert.equal(answer.text, job.lines.join(''));
  job.end();
});

test('a cursor that is no cursor, or of no line, is 400', async (t) => {
  const server = await startServer(t);
  const job = await startJob(server);
  job.end();
  const bad = [
    '',
    'x',
    '-1',
    '1',
    '1-',
    '-1-2',
    '1-2-3',
    '1--2',
    '1-2x',
    '1.5-2',
    '1e3-2',
    '9-1',
    '1-99',
    '%00',
    '1-%32%20',
    '0x1-2',
    '１-２',
  ];
  for (const after of bad) {
    for (const headers of [{}, { accept: 'text/event-stream' }]) {
      const answer = await call(server, 'GET', `/v1/jobs/${job.view.jobId}/events?after=${after}`, {
        key: server.keys.a,
        headers,
      });
      assert.equal(answer.status, 400, `after=${after}`);
      assert.equal(answer.json.code, 'DJ_CURSOR_INVALID', `after=${after}`);
    }
  }
});

test('trimmed history is 410 with the first kept cursor', async (t) => {
  const server = await startServer(t);
  const job = await startJob(server);
  job.emit({ type: 'token', text: 'a' }, { type: 'token', text: 'b' });
  server.jobs.trim(job, 2);
  const answer = await call(server, 'GET', `/v1/jobs/${job.view.jobId}/events?after=0-0`, {
    key: server.keys.a,
  });
  assert.equal(answer.status, 410);
  assert.equal(answer.json.code, 'DJ_HISTORY_TRIMMED');
  assert.equal(answer.json.firstCursor, '1-2');
});

test('an event source gets each line with its cursor as id and goes on from Last-Event-ID', async (t) => {
  const server = await startServer(t);
  const job = await startJob(server);
  job.emit({ type: 'token', text: 'a' });
  const path = `/v1/jobs/${job.view.jobId}/events?follow=true`;
  const accept = { accept: 'text/event-stream' };
  const stream = await openStream(server, 'GET', path, { key: server.keys.a, headers: accept });
  assert.equal(stream.response.headers['content-type'], 'text/event-stream');
  await stream.until('"text":"a"');
  job.end();
  assert.equal(await stream.over, true);
  const messages = job.lines.map((line) => `id: ${cursorOf(line)}\ndata: ${line.trimEnd()}\n`);
  assert.equal(stream.lines.join('\n'), messages.join('\n'));

  const resumed = await call(server, 'GET', `${path}&after=0-0`, {
    key: server.keys.a,
    headers: { ...accept, 'last-event-id': '1-1' },
  });
  assert.equal(resumed.text, `${messages.slice(2).join('\n')}\n`);
});

test('an event source that has read the end is told to stop with 204', async (t) => {
  const server = await startServer(t);
  const job = await startJob(server);
  job.end();
  const last = cursorOf(job.lines.at(-1) ?? '');
  const answer = await call(server, 'GET', `/v1/jobs/${job.view.jobId}/events?follow=true`, {
    key: server.keys.a,
    headers: { accept: 'text/event-stream', 'last-event-id': last },
  });
  assert.equal(answer.status, 204);
  assert.equal(answer.text, '');
  const ndjson = await call(server, 'GET', `/v1/jobs/${job.view.jobId}/events?follow=true&after=${last}`, {
    key: server.keys.a,
  });
  assert.equal(ndjson.status, 200);
  assert.equal(ndjson.text, '');
});

test('a raw carriage return between JSON tokens cannot break a message apart', () => {
  const line =
    '{"seq":3,"ts":"2026-01-01T00:00:00.000Z","jobId":"job_x","attempt":1,"type":"token",\r"text":"a\\rb"\r}';
  const wrapped = wrapLines(Buffer.from(`${line}\n`)).toString();
  assert.equal(wrapped, `id: 1-3\ndata: ${line.replaceAll('\r', ' ')}\n\n`);
  assert.equal(wrapLines(Buffer.from('{"type":"heartbeat"}\n')).toString(), 'data: {"type":"heartbeat"}\n\n');
  assert.equal(wrapLines(Buffer.from(`${line}\n${line}\n`)).toString(), wrapped + wrapped);
});
