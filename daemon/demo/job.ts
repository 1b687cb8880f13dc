// Posts one job as a caller would and hands its event stream on, byte for byte.
import { request } from 'node:http';

export interface EndLine {
  type: 'end';
  outcome: string;
  cause?: { code: string; message: string };
}

/** Resolves with the `end` line. `write` gets every byte of the stream in order and slows it down. */
export async function postJob(
  url: string,
  key: string,
  body: Record<string, unknown>,
  write: (bytes: Buffer) => Promise<void>,
): Promise<EndLine> {
  const headers = { authorization: `Bearer ${key}`, 'content-type': 'application/json' };
  const response = await new Promise<import('node:http').IncomingMessage>((resolve, reject) => {
    request(`${url}/v1/jobs`, { method: 'POST', headers }, resolve)
      .on('error', reject)
      .end(JSON.stringify(body));
  });
  let tail = Buffer.alloc(0);
  for await (const bytes of response as AsyncIterable<Buffer>) {
    await write(bytes);
    const joined = Buffer.concat([tail, bytes]);
    const end = joined.lastIndexOf(10, -2);
    tail = joined.subarray(end + 1);
  }
  if (response.statusCode !== 200)
    throw new Error(`POST /v1/jobs was answered ${response.statusCode}: ${tail}`);
  const last = JSON.parse(tail.toString('utf8')) as EndLine;
  if (last.type !== 'end') throw new Error('the stream closed without an end line');
  return last;
}
