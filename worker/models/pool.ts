// Chooses which model gets a request and what happens after a failure: one retry budget per turn, one layer of
// retries. Knows no HTTP; the clock, the wait and the attempt come in as arguments.
import type { ModelEntry } from '../protocol.ts';
import { type FailureKind, ModelError } from './errors.ts';

/** Further requests per turn after each model of the chain had its first. */
export const RETRIES_PER_TURN = 3;
const BACKOFF_MS = [500, 1000, 2000];
/** A `Retry-After` up to this is waited for; a longer one moves on and cools that model. */
const SHORT_WAIT_MS = 20_000;
const COOL_MS = 30_000;
const COOL_REFUSED_MS = 300_000;
const COOL_LIMIT_MS = 600_000;
/** How long a gateway may be away. */
const GATEWAY_AWAY_MS = 120_000;
/** How often per turn a break in mid-answer counts as the gateway's; further ones are the model's behind it. */
const GATEWAY_CUTS = 1;

const MOVE_ON: ReadonlySet<FailureKind> = new Set([
  'quota',
  'auth',
  'unknown_model',
  'not_api',
  'content_filter',
]);
const STOP: ReadonlySet<FailureKind> = new Set(['overflow', 'bad_request', 'budget', 'cancelled']);

/** When each model may be tried first again, in milliseconds of the clock; shared by the runs of a process. */
export type Cooling = Map<string, number>;

export interface PoolRequest<T> {
  models: readonly ModelEntry[];
  cooling: Cooling;
  attempt(entry: ModelEntry): Promise<T>;
  /** Called before the next request; readers drop the text of the failed one. */
  onFallback(from: ModelEntry, to: ModelEntry, failure: ModelError): Promise<void> | void;
  now(): number;
  /** Rejects with a `cancelled` ModelError when the run is cancelled. */
  sleep(ms: number): Promise<void>;
}

const coolingKey = (entry: ModelEntry): string => `${entry.baseUrl} ${entry.id}`;

/** The chain in the order in which it is tried: models that cool down come last, never not at all. */
export function orderModels(models: readonly ModelEntry[], cooling: Cooling, now: number): ModelEntry[] {
  const isCooling = (entry: ModelEntry): boolean => (cooling.get(coolingKey(entry)) ?? 0) > now;
  return [...models.filter((entry) => !isCooling(entry)), ...models.filter(isCooling)];
}

function coolMs(failure: ModelError): number {
  if (failure.retryAfterMs !== undefined) return Math.min(failure.retryAfterMs, COOL_LIMIT_MS);
  return MOVE_ON.has(failure.kind) ? COOL_REFUSED_MS : COOL_MS;
}

interface Failed {
  entry: ModelEntry;
  failure: ModelError;
}

/** One error for the run: the single failure, or each model with its own. */
function sumUp(failed: readonly Failed[]): ModelError {
  const latest = new Map<string, Failed>();
  for (const one of failed) latest.set(coolingKey(one.entry), one);
  const last = failed.at(-1) as Failed;
  const message = [...latest.values()].map((one) => `${one.entry.id}: ${one.failure.message}`).join('; ');
  return new ModelError(last.failure.kind, latest.size > 1 ? `all models failed: ${message}` : message, {
    ...(last.failure.status === undefined ? {} : { status: last.failure.status }),
  });
}

/** Repeats to the same model while the gateway is away; gives the answer or a failure of another kind. */
async function attemptThroughGateway<T>(
  request: PoolRequest<T>,
  entry: ModelEntry,
  turn: { cuts: number },
): Promise<T> {
  let awaySince: number | undefined;
  for (let waitMs = 100; ; waitMs = Math.min(waitMs * 2, 2000)) {
    try {
      return await request.attempt(entry);
    } catch (error) {
      if (!(error instanceof ModelError) || error.kind !== 'gateway') throw error;
      turn.cuts += error.answered ? 1 : 0;
      if (error.answered && turn.cuts > GATEWAY_CUTS)
        throw new ModelError('network', error.message, { answered: true });
      awaySince ??= request.now();
      if (request.now() - awaySince >= GATEWAY_AWAY_MS) throw error;
      // Said once per outage, and again whenever text was streamed that must be dropped.
      if (waitMs === 100 || error.answered) await request.onFallback(entry, entry, error);
      await request.sleep(waitMs);
    }
  }
}

/** Which model is asked next, after which wait; null when the budget is spent. Takes hopeless models off the chain. */
function nextStep(
  chain: ModelEntry[],
  { entry, failure }: Failed,
  tried: ReadonlySet<ModelEntry>,
  retries: number,
): { entry: ModelEntry; waitMs: number } | null {
  const backoffMs = BACKOFF_MS[Math.min(retries, BACKOFF_MS.length - 1)] as number;
  const position = chain.indexOf(entry);
  let next = chain[position + 1] ?? chain[0];
  let waitMs = next === chain[0] ? backoffMs : 0;
  if (MOVE_ON.has(failure.kind)) {
    chain.splice(position, 1);
    if (next === entry) next = chain[0];
  } else if (failure.retryAfterMs !== undefined && failure.retryAfterMs <= SHORT_WAIT_MS) {
    next = entry;
    waitMs = Math.max(failure.retryAfterMs, backoffMs);
  }
  if (next === undefined || (tried.has(next) && retries >= RETRIES_PER_TURN)) return null;
  return { entry: next, waitMs };
}

/**
 * Asks the models in order until one answers. Gives the answer and who gave it; rejects with a ModelError: at once
 * for `overflow` (which carries the model in `entry`), bad requests, a spent budget and cancellation, else when the
 * retry budget is spent.
 */
export async function askPool<T>(request: PoolRequest<T>): Promise<{ answer: T; entry: ModelEntry }> {
  const chain = orderModels(request.models, request.cooling, request.now());
  const failures: Failed[] = [];
  let entry = chain[0] as ModelEntry;
  let retries = 0;
  const turn = { cuts: 0 };
  const tried = new Set<ModelEntry>();
  for (;;) {
    try {
      const repeated = tried.has(entry);
      tried.add(entry);
      if (repeated) retries += 1;
      const answer = await attemptThroughGateway(request, entry, turn);
      request.cooling.delete(coolingKey(entry));
      return { answer, entry };
    } catch (error) {
      if (!(error instanceof ModelError)) throw error;
      if (STOP.has(error.kind) || error.kind === 'gateway') throw Object.assign(error, { entry });
      const failed = { entry, failure: error };
      failures.push(failed);
      const next = nextStep(chain, failed, tried, retries);
      if (request.models.length > 1 && next?.entry !== entry) {
        request.cooling.set(coolingKey(entry), request.now() + coolMs(error));
      }
      if (next === null) throw sumUp(failures);
      await request.onFallback(entry, next.entry, error);
      await request.sleep(next.waitMs);
      entry = next.entry;
    }
  }
}
