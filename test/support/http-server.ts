// A listening HTTP server over memory jobs, closed by itself after the test, with a log that can be read.
import { request as httpRequest, type IncomingMessage } from 'node:http';
import type { TestContext } from 'node:test';
import { pino } from 'pino';
import type { HttpDeps } from '../../daemon/http/deps.ts';
import { buildHttp, type HttpServer } from '../../daemon/http/server.ts';
import { createMetrics, type Metrics } from '../../daemon/metrics.ts';
import { createMemoryDirectory, type MemoryDirectory } from './memory-directory.ts';
import { createMemoryJobs, type MemoryJobs } from './memory-jobs.ts';

export interface TestServer {
  server: HttpServer;
  url: string;
  port: number;
  jobs: MemoryJobs;
  directory: MemoryDirectory;
  metrics: Metrics;
  log: string[];
  keys: { a: string; adminA: string; b: string; platform: string; operator: string };
}

/** Tenants TA and TB exist; `platform` acts for TA and TC only. */
export async function startServer(t: TestContext, overrides: Partial<HttpDeps> = {}): Promise<TestServer> {
  const jobs = createMemoryJobs();
  const directory = createMemoryDirectory('TA', 'TB', 'TC');
  const metrics = createMetrics();
  const log: string[] = [];
  const server = await buildHttp({
    jobs,
    keys: directory.keys,
    tenants: directory.tenants,
    enforcement: () => ({
      mode: 'best-effort',
      refused: false,
      hierarchy: 'unified',
      kernel: '6.12',
      controls: {},
    }),
    metrics,
    log: pino({ level: 'trace' }, { write: (line: string) => void log.push(line) }),
    version: '0.0.0',
    ...overrides,
  });
  const url = await server.listen({ host: '127.0.0.1', port: 0 });
  t.after(() => server.stop(0));
  const keys = {
    a: directory.issue('caller', 'TA'),
    adminA: directory.issue('tenant_admin', 'TA'),
    b: directory.issue('caller', 'TB'),
    platform: directory.issue('platform', 'TA', 'TC'),
    operator: directory.issue('operator'),
  };
  return { server, url, port: Number(new URL(url).port), jobs, directory, metrics, log, keys };
}

export interface Answer {
  status: number;
  headers: Record<string, string>;
  text: string;
  json: Record<string, unknown>;
}

/** One request with a key; a body that is an object is sent as JSON. */
export async function call(
  { url }: Pick<TestServer, 'url'>,
  method: string,
  path: string,
  options: { key?: string; body?: unknown; headers?: Record<string, string> } = {},
): Promise<Answer> {
  const { key, body, headers = {} } = options;
  const raw = typeof body === 'string' || body === undefined;
  const response = await fetch(url + path, {
    method,
    headers: {
      ...(key === undefined ? {} : { authorization: `Bearer ${key}` }),
      ...(body === undefined ? {} : { 'content-type': 'application/json' }),
      ...headers,
    },
    ...(body === undefined ? {} : { body: raw ? (body as string) : JSON.stringify(body) }),
  });
  const text = await response.text();
  const parsed = response.headers.get('content-type')?.includes('json') && !text.includes('\n{');
  const json = parsed && text !== '' ? (JSON.parse(text) as Record<string, unknown>) : {};
  return { status: response.status, headers: Object.fromEntries(response.headers), text, json };
}

export interface LineReader {
  response: IncomingMessage;
  /** Lines so far, whole ones only. */
  lines: string[];
  /** Resolves once a line contains the text. */
  until(text: string): Promise<void>;
  /** Resolves when the response is over: true when it was whole. */
  over: Promise<boolean>;
  destroy(): void;
}

/** Opens a stream and collects its lines as they come. */
export function openStream(
  { port }: Pick<TestServer, 'port'>,
  method: string,
  path: string,
  options: { key: string; body?: unknown; headers?: Record<string, string> },
): Promise<LineReader> {
  return new Promise((resolve, reject) => {
    const request = httpRequest({
      port,
      host: '127.0.0.1',
      method,
      path,
      agent: false,
      headers: {
        authorization: `Bearer ${options.key}`,
        ...(options.body === undefined ? {} : { 'content-type': 'application/json' }),
        ...options.headers,
      },
    });
    request.on('error', reject);
    request.on('response', (response) => resolve(collect(response, () => request.destroy())));
    request.end(options.body === undefined ? undefined : JSON.stringify(options.body));
  });
}

function collect(response: IncomingMessage, destroy: () => void): LineReader {
  const lines: string[] = [];
  const waiting = new Set<() => void>();
  let rest = '';
  response.setEncoding('utf8');
  response.on('data', (chunk: string) => {
    const parts = (rest + chunk).split('\n');
    rest = parts.pop() ?? '';
    lines.push(...parts);
    for (const check of [...waiting]) check();
  });
  response.on('error', () => undefined);
  const over = new Promise<boolean>((resolve) => response.once('close', () => resolve(response.complete)));
  const until = (text: string) =>
    new Promise<void>((resolve, reject) => {
      const check = () => {
        if (!lines.some((line) => line.includes(text))) return;
        waiting.delete(check);
        resolve();
      };
      waiting.add(check);
      check();
      void over.then(() => {
        check();
        if (waiting.delete(check)) reject(new Error(`the stream ended without ${text}`));
      });
    });
  return { response, lines, until, over, destroy };
}
