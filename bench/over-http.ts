// Jobs over HTTP as a platform would send them, with the time at which each thing is seen.
import { Agent, type IncomingMessage, request } from 'node:http';

export interface HttpRun {
  /** Milliseconds since the request was begun. */
  runningMs: number;
  /** The program's own first line. */
  firstMs: number;
  /** The stream is closed. */
  wholeMs: number;
  /** Number of the last line: how many the attempt has. */
  lines: number;
  /** Processor time of launcher, sandbox and program, as the call's cgroup counts it; NaN without one. */
  cpuMs: number;
}

export interface Caller {
  post(path: string, key: string, body?: object, headers?: Record<string, string>): Promise<IncomingMessage>;
  get(path: string, key: string): Promise<IncomingMessage>;
  /** Posts a job and reads its stream to the end. Throws unless it ends as `outcome`. */
  run(key: string, body: object, outcome?: string): Promise<HttpRun>;
  close(): void;
}

interface EndLine {
  type: string;
  outcome?: string;
  seq: number;
  resources?: { cpuUsec?: number };
}

const TAIL_BYTES = 16 * 1024;

export function createCaller(url: string): Caller {
  const agent = new Agent({ keepAlive: true, maxSockets: Number.POSITIVE_INFINITY });

  function send(
    method: string,
    path: string,
    headers: Record<string, string>,
    body?: string,
  ): Promise<IncomingMessage> {
    return new Promise((resolve, reject) => {
      request(`${url}${path}`, { agent, method, headers }, resolve).on('error', reject).end(body);
    });
  }
  const bearer = (key: string) => ({ authorization: `Bearer ${key}` });
  const caller: Caller = {
    post: (path, key, body, headers = {}) => {
      const type = body === undefined ? {} : { 'content-type': 'application/json' };
      return send(
        'POST',
        path,
        { ...bearer(key), ...type, ...headers },
        body === undefined ? undefined : JSON.stringify(body),
      );
    },
    get: (path, key) => send('GET', path, bearer(key)),
    async run(key, body, outcome = 'ok') {
      const beganMs = performance.now();
      const response = await caller.post('/v1/jobs', key, body);
      return readRun(response, beganMs, outcome);
    },
    close: () => agent.destroy(),
  };
  return caller;
}

/** The rest of an answer as text. */
export async function textOf(response: IncomingMessage): Promise<string> {
  const parts: Buffer[] = [];
  for await (const part of response as AsyncIterable<Buffer>) parts.push(part);
  return Buffer.concat(parts).toString('utf8');
}

async function readRun(response: IncomingMessage, beganMs: number, outcome: string): Promise<HttpRun> {
  if (response.statusCode !== 200)
    throw new Error(`POST /v1/jobs: ${response.statusCode} ${await textOf(response)}`);
  let runningMs = Number.NaN;
  let firstMs = Number.NaN;
  let head = '';
  let tail: Buffer = Buffer.alloc(0);
  for await (const chunk of response as AsyncIterable<Buffer>) {
    // Only until the program speaks: afterwards a chunk costs next to nothing here.
    if (Number.isNaN(firstMs)) {
      const nowMs = performance.now() - beganMs;
      head += chunk.toString('latin1');
      if (Number.isNaN(runningMs) && head.includes('"state":"running"')) runningMs = nowMs;
      if (head.includes('"type":"session"')) firstMs = nowMs;
    }
    tail = chunk.length >= TAIL_BYTES ? chunk : Buffer.concat([tail, chunk]).subarray(-TAIL_BYTES);
  }
  const wholeMs = performance.now() - beganMs;
  const line = tail.toString('utf8', tail.lastIndexOf(10, -2) + 1);
  const end = JSON.parse(line) as EndLine;
  if (end.type !== 'end' || end.outcome !== outcome)
    throw new Error(`the job did not end ${outcome}: ${line}`);
  const cpuMs = (end.resources?.cpuUsec ?? Number.NaN) / 1000;
  return { runningMs, firstMs, wholeMs, lines: end.seq, cpuMs };
}
