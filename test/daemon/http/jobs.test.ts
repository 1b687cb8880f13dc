// Starting, reading, listing and cancelling jobs over HTTP.
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { openStream, startServer } from '../../support/http-server.ts';

test('a job is streamed as NDJSON from its queued line to its end', async (t) => {
  const server = await startServer(t);
  const stream = await openStream(server, 'POST', '/v1/jobs', { key: server.keys.a, body: { prompt: 'hi' } });
  assert.equal(stream.response.statusCode, 200);
  const { headers } = stream.response;
  assert.equal(headers['content-type'], 'application/x-ndjson');
  assert.equal(headers['cache-control'], 'no-store');
  assert.equal(headers['x-accel-buffering'], 'no');
  assert.match(headers['x-request-id'] as string, /^req_/);
  await stream.until('"queued"');
  const job = server.jobs.all[0];
  assert.ok(job);
  assert.equal(headers.location, `/v1/jobs/${job.view.jobId}`);
  assert.equal(stream.lines.length, 1);
  job.emit({ type: 'token', text: 'hello' });
  await stream.until('hello');
  job.end();
  assert.equal(await stream.over, true);
  assert.deepEqual(
    stream.lines.map((line) => JSON.parse(line).type),
    ['job', 'token', 'end'],
  );
  assert.equal(stream.lines.join('\n'), job.lines.join('').trimEnd());
});
