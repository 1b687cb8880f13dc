// One request from a sandbox: checked, counted against the job's limits, sent on, answered. Never logs bodies or keys.
import type { IncomingMessage, ServerResponse } from 'node:http';
import { setTimeout as sleep } from 'node:timers/promises';
import type { Budget } from './budget.ts';
import { type Forwarded, forwardAnswer } from './forward.ts';
import { checkRequest, type ModelRequest } from './policy.ts';
import {
  BODY_TOO_LARGE,
  BUDGET_SPENT,
  GATEWAY_FULL,
  MODEL_NOT_ALLOWED,
  NOT_FOUND,
  type Refusal,
  sendRefusal,
  TOO_MANY,
  upstreamFailed,
} from './refusal.ts';
import { type BodyLimits, readBody } from './request-body.ts';
import type { GatewayDeps, GatewayJob, GatewayLimits, Upstream } from './types.ts';
import { type UpstreamConnections, UpstreamUnreachable } from './upstream.ts';

export interface ServeContext {
  deps: GatewayDeps;
  limits: GatewayLimits;
  budget: Budget;
  connections: UpstreamConnections;
  job: GatewayJob;
  /** Model requests of this job that are open now. */
  slots: { taken: number };
  bodies: BodyLimits;
}

/** A checked request, and how to give back the memory of its body. */
type Relayed = ModelRequest & { release: () => void };

const REFUSED_BODIES = { too_large: BODY_TOO_LARGE, job_full: TOO_MANY, all_full: GATEWAY_FULL };

const CHAT = '/v1/chat/completions';
const MODELS = '/v1/models';
const NOTHING = Buffer.alloc(0);
/** A client that goes on sending after it was refused is cut off. */
const DRAIN_MS = 2_000;

/** Answers in every case; the signal aborts what is in flight. Rejects only on a fault of our own. */
export async function serveRequest(
  context: ServeContext,
  request: IncomingMessage,
  response: ServerResponse,
  signal: AbortSignal,
): Promise<void> {
  // Compared as it was sent: an absolute address, a query or another spelling of the path is something else.
  if (request.method === 'GET' && request.url === MODELS) {
    sendModels(response, context.job.models);
    return;
  }
  if (request.method !== 'POST' || request.url !== CHAT) {
    await refuse(context, { request, response, signal }, NOT_FOUND);
    return;
  }
  if (!takeSlot(context, response)) {
    await refuse(context, { request, response, signal }, TOO_MANY);
    return;
  }
  const body = await readBody(request, context.bodies);
  if (body.kind === 'gone') return;
  if (body.kind !== 'whole') {
    await refuse(context, { request, response, signal }, REFUSED_BODIES[body.kind]);
    return;
  }
  try {
    const checked = checkRequest(body.bytes, context.job.models, context.limits);
    if (checked.ok) await relay(context, { ...checked.request, release: body.release }, response, signal);
    else await refuse(context, { request, response, signal }, checked.refusal);
  } finally {
    body.release();
  }
}

/** The slot is free again as soon as the answer is out: its client may ask the next thing at once. */
function takeSlot({ slots, limits }: ServeContext, response: ServerResponse): boolean {
  if (slots.taken >= limits.concurrent) return false;
  slots.taken += 1;
  let held = true;
  const free = () => {
    if (held) slots.taken -= 1;
    held = false;
  };
  response.once('finish', free);
  response.once('close', free);
  return true;
}

async function relay(
  context: ServeContext,
  wanted: Relayed,
  response: ServerResponse,
  signal: AbortSignal,
): Promise<void> {
  const { deps, budget, job } = context;
  const upstream = deps.upstreamFor(wanted.model);
  const refuseNow = (refusal: Refusal) => {
    deps.metrics.gatewayRequest('refused');
    sendRefusal(response, refusal);
  };
  if (upstream === null) return refuseNow(MODEL_NOT_ALLOWED);
  const reserved = await budget.reserve(job.tenantId, wanted.reservation, signal);
  if (reserved.kind === 'aborted') return;
  if (reserved.kind === 'spent') {
    deps.onBudgetSpent(job.jobId);
    return refuseNow(BUDGET_SPENT);
  }
  try {
    await send(context, wanted, upstream, response, signal);
  } finally {
    reserved.giveBack();
  }
}

async function send(
  context: ServeContext,
  wanted: Relayed,
  upstream: Upstream,
  response: ServerResponse,
  signal: AbortSignal,
): Promise<void> {
  const { deps, limits, connections } = context;
  const startedAt = performance.now();
  const { stream, model } = wanted;
  const report = (outcome: Record<string, unknown>) =>
    deps.log.info(
      { model, durationMs: Math.round(performance.now() - startedAt), ...outcome },
      'model request',
    );
  try {
    const answer = await connections.send({ upstream, body: wanted.body, stream, signal, ...limits });
    // An answer may take half an hour; its request is not kept that long.
    wanted.body = NOTHING;
    wanted.release();
    const forwarded = await forwardAnswer(answer, response, upstream.apiKey);
    const status = answer.statusCode;
    deps.metrics.gatewayRequest(signal.aborted ? 'aborted' : forwarded.result);
    const spent = await charge(context, wanted, forwarded);
    report({ status, complete: forwarded.complete, ...spent });
  } catch (error) {
    if (!(error instanceof UpstreamUnreachable)) throw error;
    const aborted = error.code === 'ABORTED';
    deps.metrics.gatewayRequest(aborted ? 'aborted' : 'unreachable');
    sendRefusal(response, upstreamFailed(error.code));
    // Sent and then given up: the provider may have worked on it all the same.
    const spent = aborted
      ? await charge(context, wanted, { result: '2xx', usage: null, complete: false })
      : {};
    report({ cause: error.code, ...spent });
  }
}

/** Tells what the request cost. Refusals of the provider are free; an answer without a figure costs its reservation. */
async function charge(
  { deps, job }: ServeContext,
  { model, reservation }: ModelRequest,
  { result, usage }: Forwarded,
): Promise<object> {
  if (result !== '2xx' && usage === null) return {};
  const count = usage ?? reservation;
  deps.metrics.gatewayTokens(count);
  const spent = { tenantId: job.tenantId, model, ...count, estimated: usage === null };
  try {
    await deps.onUsage(job.jobId, spent);
  } catch (error) {
    deps.log.error({ err: error, ...spent }, 'usage could not be stored');
  }
  return spent;
}

function sendModels(response: ServerResponse, models: readonly string[]): void {
  const data = models.map((id) => ({ id, object: 'model', created: 0, owned_by: 'djinnd' }));
  response.writeHead(200, { 'content-type': 'application/json' });
  response.end(`${JSON.stringify({ object: 'list', data })}\n`);
}

async function refuse(
  { deps }: ServeContext,
  { request, response, signal }: { request: IncomingMessage; response: ServerResponse; signal: AbortSignal },
  refusal: Refusal,
): Promise<void> {
  deps.metrics.gatewayRequest('refused');
  deps.log.info({ status: refusal.status, code: refusal.code }, 'model request refused');
  sendRefusal(response, refusal);
  if (request.complete) return;
  // What is still arriving is read for a moment, so that the client gets to read the refusal instead of a reset.
  request.resume();
  await sleep(DRAIN_MS, undefined, { ref: false, signal }).catch(() => undefined);
  if (!request.complete) request.destroy();
}
