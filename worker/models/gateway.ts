// Patience with the daemon's gateway: while it is away, the same request goes to the same model again. Nothing cools
// down and no retry budget is used, because being away is not the model's fault.
import type { ModelEntry } from '../protocol.ts';
import { ModelError } from './errors.ts';

/** How long a gateway may be away. */
const AWAY_LIMIT_MS = 120_000;
/** How often per turn a break in mid-answer counts as the gateway's; further ones are the model's behind it. */
const CUTS_PER_TURN = 1;
const FIRST_WAIT_MS = 100;
const MAX_WAIT_MS = 2000;

export type AskThroughGateway = <T>(
  entry: ModelEntry,
  attempt: (entry: ModelEntry) => Promise<T>,
) => Promise<T>;

/** The patience of one turn. It gives the answer, or rejects with another failure or with `gateway` in the end. */
export function createGatewayPatience(ports: {
  onFallback(from: ModelEntry, to: ModelEntry, failure: ModelError): Promise<void> | void;
  now(): number;
  sleep(ms: number): Promise<void>;
}): AskThroughGateway {
  let cuts = 0;
  return async (entry, attempt) => {
    let awaySince: number | undefined;
    for (let waitMs = FIRST_WAIT_MS; ; waitMs = Math.min(waitMs * 2, MAX_WAIT_MS)) {
      try {
        return await attempt(entry);
      } catch (error) {
        if (!(error instanceof ModelError) || error.kind !== 'gateway') throw error;
        cuts += error.answered ? 1 : 0;
        if (error.answered && cuts > CUTS_PER_TURN)
          throw new ModelError('network', error.message, { answered: true });
        awaySince ??= ports.now();
        if (ports.now() - awaySince >= AWAY_LIMIT_MS) throw error;
        // Said once per outage, and again whenever text was streamed that must be dropped.
        if (waitMs === FIRST_WAIT_MS || error.answered) await ports.onFallback(entry, entry, error);
        await ports.sleep(waitMs);
      }
    }
  };
}
