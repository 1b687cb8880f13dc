// Which models are left alone for a while after a failure, and when one request may try them again. Pure: the clock
// comes in, and whoever wants a memory beyond the process keeps the map (see cooling-file.ts).
import { createHash } from 'node:crypto';
import type { ModelEntry } from '../protocol.ts';
import type { FailureKind, ModelError } from './errors.ts';

const COOL_MS = 30_000;
const COOL_REFUSED_MS = 300_000;
const COOL_LIMIT_MS = 600_000;
/** How long one run's probe of a model keeps the other runs away from it. */
const PROBE_MS = 60_000;

/** Failures that do not pass by themselves: nothing but time or a person mends them. */
export const REFUSALS: ReadonlySet<FailureKind> = new Set([
  'quota',
  'auth',
  'unknown_model',
  'not_api',
  'content_filter',
]);

/** When each model may be tried first again, in milliseconds of the clock, by `coolingKey`. A Map is one. */
export interface Cooling {
  get(key: string): number | undefined;
  has(key: string): boolean;
  set(key: string, untilMs: number): unknown;
  delete(key: string): unknown;
}

/**
 * What is left alone: this model of this endpoint for whoever has this key, since an exhausted quota is one key's. The
 * key itself is not in it, nor is the query, which may hold one.
 */
export function coolingKey({ baseUrl, id, apiKey, headers }: ModelEntry): string {
  const secrets = JSON.stringify([apiKey, headers]);
  const whose = createHash('sha256').update(secrets).digest('hex').slice(0, 8);
  return `${baseUrl.split('?', 1)[0]} ${id} ${whose}`;
}

const isCooling = (entry: ModelEntry, cooling: Cooling, now: number): boolean =>
  (cooling.get(coolingKey(entry)) ?? 0) > now;

/** The chain in the order in which it is tried: models that cool down come last, never not at all. */
export function orderModels(models: readonly ModelEntry[], cooling: Cooling, now: number): ModelEntry[] {
  const cool = models.filter((entry) => isCooling(entry, cooling, now));
  return [...models.filter((entry) => !cool.includes(entry)), ...cool];
}

/**
 * Half-open: the request that finds a model's time to be over is the one that tries it, and the others go on leaving
 * it alone until that request is answered. Called right before a request to the model.
 */
export function beginProbe(entry: ModelEntry, cooling: Cooling, now: number): void {
  if (cooling.has(coolingKey(entry))) cooling.set(coolingKey(entry), now + PROBE_MS);
}

/** Leaves the model alone: as long as the server asked, longer when it refused, and never above ten minutes. */
export function coolDown(entry: ModelEntry, cooling: Cooling, now: number, failure: ModelError): void {
  const asked = failure.retryAfterMs;
  const coolMs = asked ?? (REFUSALS.has(failure.kind) ? COOL_REFUSED_MS : COOL_MS);
  cooling.set(coolingKey(entry), now + Math.min(coolMs, COOL_LIMIT_MS));
}
