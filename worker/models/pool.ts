// Chooses which model gets a request and what happens after a failure: one retry budget per turn, one layer of
// retries. Knows no HTTP; the clock, the wait and the attempt come in as arguments.
import type { ModelEntry } from '../protocol.ts';
import { beginProbe, type Cooling, coolDown, coolingKey, orderModels, REFUSALS } from './cooling.ts';
import { type FailureKind, ModelError } from './errors.ts';
import { type AskThroughGateway, createGatewayPatience } from './gateway.ts';

/** Further requests per turn after each model of the chain had its first. */
export const RETRIES_PER_TURN = 3;
const BACKOFF_MS = [500, 1000, 2000];
/** A `Retry-After` up to this is waited for; a longer one moves on and cools that model. */
const SHORT_WAIT_MS = 20_000;

const STOP: ReadonlySet<FailureKind> = new Set(['overflow', 'bad_request', 'budget', 'cancelled', 'gateway']);

export interface PoolPorts {
  cooling: Cooling;
  /** Called before the next request; readers drop the text of the failed one. */
  onFallback(from: ModelEntry, to: ModelEntry, failure: ModelError): Promise<void> | void;
  now(): number;
  /** Rejects with a `cancelled` ModelError when the run is cancelled. */
  sleep(ms: number): Promise<void>;
}

interface Failed {
  entry: ModelEntry;
  failure: ModelError;
}

/** What one turn has used up: it lasts over compactions, so that those bring no new budget. */
export interface PoolTurn {
  /** Models that may still be asked, in order. */
  chain: ModelEntry[];
  /** The one that is asked next. */
  entry: ModelEntry;
  /** Requests beyond the first one of each model. */
  retries: number;
  failures: Failed[];
  failed: Set<ModelEntry>;
  throughGateway: AskThroughGateway;
}

/** Begins a turn: the first model that does not cool down is asked first. */
export function beginTurn(models: readonly ModelEntry[], ports: PoolPorts): PoolTurn {
  const chain = orderModels(models, ports.cooling, ports.now());
  return {
    chain,
    entry: chain[0] as ModelEntry,
    retries: 0,
    failures: [],
    failed: new Set(),
    throughGateway: createGatewayPatience(ports),
  };
}

/** One error for the run: the single failure, or each model with its own. */
function sumUp(failures: readonly Failed[]): ModelError {
  const latest = new Map<string, Failed>();
  for (const one of failures) latest.set(coolingKey(one.entry), one);
  const last = failures.at(-1) as Failed;
  const message = [...latest.values()].map((one) => `${one.entry.id}: ${one.failure.message}`).join('; ');
  return new ModelError(last.failure.kind, latest.size > 1 ? `all models failed: ${message}` : message, {
    ...(last.failure.status === undefined ? {} : { status: last.failure.status }),
  });
}

/** Which model is asked next, after which wait; null when the budget is spent. Takes hopeless models off the chain. */
function nextStep(turn: PoolTurn, { entry, failure }: Failed): { entry: ModelEntry; waitMs: number } | null {
  const { chain, failed, retries } = turn;
  const backoffMs = BACKOFF_MS[Math.min(retries, BACKOFF_MS.length - 1)] as number;
  const position = chain.indexOf(entry);
  let next = chain[position + 1] ?? chain[0];
  let waitMs = next === chain[0] ? backoffMs : 0;
  if (REFUSALS.has(failure.kind)) {
    chain.splice(position, 1);
    if (next === entry) next = chain[0];
  } else if (failure.retryAfterMs !== undefined && failure.retryAfterMs <= SHORT_WAIT_MS) {
    next = entry;
    waitMs = Math.max(failure.retryAfterMs, backoffMs);
  }
  if (next === undefined || (failed.has(next) && retries >= RETRIES_PER_TURN)) return null;
  return { entry: next, waitMs };
}

/**
 * Asks the models of a turn until one answers. Gives the answer and who gave it; rejects with a ModelError: at once
 * for `overflow` (which carries the model in `entry`; a further call goes on with it), bad requests, a spent budget
 * and cancellation, else when the retry budget is spent.
 */
export async function askPool<T>(
  turn: PoolTurn,
  ports: PoolPorts,
  attempt: (entry: ModelEntry) => Promise<T>,
): Promise<{ answer: T; entry: ModelEntry }> {
  for (;;) {
    const { entry } = turn;
    if (turn.failed.has(entry)) turn.retries += 1;
    beginProbe(entry, ports.cooling, ports.now());
    try {
      const answer = await turn.throughGateway(entry, attempt);
      ports.cooling.delete(coolingKey(entry));
      return { answer, entry };
    } catch (error) {
      if (!(error instanceof ModelError)) throw error;
      if (STOP.has(error.kind)) {
        // It answered, so it is not down.
        if (error.kind === 'overflow' || error.kind === 'bad_request')
          ports.cooling.delete(coolingKey(entry));
        throw Object.assign(error, { entry });
      }
      const failure = { entry, failure: error };
      turn.failures.push(failure);
      turn.failed.add(entry);
      const several = turn.chain.length > 1 || turn.failures.some((one) => one.entry !== entry);
      const next = nextStep(turn, failure);
      if (several && next?.entry !== entry) coolDown(entry, ports.cooling, ports.now(), error);
      if (next === null) throw sumUp(turn.failures);
      await ports.onFallback(entry, next.entry, error);
      await ports.sleep(next.waitMs);
      turn.entry = next.entry;
    }
  }
}
