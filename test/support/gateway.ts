// A gateway with one open job over a test upstream, closed and removed after the test.
import { mkdtemp, readdir, rm } from 'node:fs/promises';
import { type IncomingHttpHeaders, type IncomingMessage, request } from 'node:http';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import type { TestContext } from 'node:test';
import { pino } from 'pino';
import {
  createGateway,
  type Gateway,
  type GatewayDeps,
  type GatewayJob,
  type Spent,
} from '../../daemon/gateway/index.ts';
import { createMetrics, type Metrics } from '../../daemon/metrics.ts';

export const KEY = 'sk-CANARY-1-abcdefghijklmnop';

export interface TestGateway {
  gateway: Gateway;
  job: GatewayJob;
  socketPath: string;
  spent: Spent[];
  budgetSpent: string[];
  log: string[];
  metrics: Metrics;
  /** What the tenant has left; null: no cap. */
  remaining: { tokens: number | null };
}

export async function openGateway(
  t: TestContext,
  baseUrl: string,
  overrides: Partial<GatewayDeps> = {},
): Promise<TestGateway> {
  const gatewayDir = await mkdtemp(join(tmpdir(), 'djgw-'));
  const log: string[] = [];
  const spent: Spent[] = [];
  const budgetSpent: string[] = [];
  const metrics = createMetrics();
  const remaining: { tokens: number | null } = { tokens: null };
  const gateway = createGateway({
    upstreamFor: () => ({ baseUrl, apiKey: KEY }),
    budget: () => remaining.tokens,
    onUsage: (_jobId, one) => void spent.push(one),
    onBudgetSpent: (jobId) => void budgetSpent.push(jobId),
    metrics,
    log: pino({ level: 'trace' }, { write: (line: string) => void log.push(line) }),
    ...overrides,
  });
  const job = { jobId: 'job_1', attempt: 1, tenantId: 'TA', gatewayDir, models: ['m-1', 'm-2'] };
  t.after(async () => {
    await gateway.stop(0);
    const left = await readdir(gatewayDir);
    await rm(gatewayDir, { recursive: true, force: true });
    if (left.length > 0) throw new Error(`left behind: ${left.join(', ')}`);
  });
  await gateway.open(job);
  return {
    gateway,
    job,
    socketPath: join(gatewayDir, 'model.sock'),
    spent,
    budgetSpent,
    log,
    metrics,
    remaining,
  };
}

export interface GatewayAnswer {
  status: number;
  headers: IncomingHttpHeaders;
  text: string;
  complete: boolean;
  error: { message: string; type: string; code: string; param: string | null };
}

/** The head of an answer; its body is the caller's to read. */
export function openRequest(
  socketPath: string,
  body: unknown,
  options: { method?: string; path?: string; headers?: Record<string, string> } = {},
): Promise<IncomingMessage> {
  return new Promise((resolve, reject) => {
    const out = request({
      socketPath,
      agent: false,
      method: options.method ?? 'POST',
      path: options.path ?? '/v1/chat/completions',
      headers: { 'content-type': 'application/json', ...options.headers },
    });
    out.on('response', resolve);
    out.on('error', reject);
    out.end(body === undefined ? undefined : typeof body === 'string' ? body : JSON.stringify(body));
  });
}

/** One whole request. */
export async function ask(...parameters: Parameters<typeof openRequest>): Promise<GatewayAnswer> {
  const response = await openRequest(...parameters);
  const chunks: Buffer[] = [];
  response.on('error', () => undefined);
  response.on('data', (chunk: Buffer) => chunks.push(chunk));
  await new Promise((resolve) => response.once('close', resolve));
  const text = Buffer.concat(chunks).toString();
  let error = {} as GatewayAnswer['error'];
  try {
    error = (JSON.parse(text) as { error?: GatewayAnswer['error'] }).error ?? error;
  } catch {
    // Not JSON: a stream.
  }
  return {
    status: response.statusCode ?? 0,
    headers: response.headers,
    text,
    complete: response.complete,
    error,
  };
}

export const chat = (more: object = {}) => ({
  model: 'm-1',
  messages: [{ role: 'user', content: 'hi' }],
  ...more,
});
