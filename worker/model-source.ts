// The seam between a run and its models: who answers a request, and the clock that waits and cool-downs go by.
import type { Answer } from './models/answer.ts';
import type { CompletionRequest } from './models/completion.ts';
import type { Cooling } from './models/cooling.ts';
import { ModelError } from './models/errors.ts';
import type { RecordData } from './session/record.ts';

export interface ModelSource {
  /** Milliseconds since the epoch. */
  now(): number;
  /** Waits, or rejects with a `cancelled` ModelError as soon as the run is cancelled. */
  sleep(ms: number, signal: AbortSignal): Promise<void>;
  /** Which models are left alone for a while; default: the memory of this process or of a file. */
  cooling?: Cooling;
  /** Sees each request before it is logged; may throw to end the run. */
  check?(request: RecordData['request']): void;
  /** Resolves with a whole answer or rejects with a ModelError; see `requestCompletion`. */
  complete(request: CompletionRequest): Promise<Answer>;
}

function sleep(ms: number, signal: AbortSignal): Promise<void> {
  return new Promise((resolve, reject) => {
    const cancel = (): void => {
      clearTimeout(timer);
      reject(new ModelError('cancelled', 'cancelled'));
    };
    const timer = setTimeout(() => {
      signal.removeEventListener('abort', cancel);
      resolve();
    }, ms);
    if (signal.aborted) cancel();
    else signal.addEventListener('abort', cancel, { once: true });
  });
}

/** Models over HTTP and the clock of the machine. Loads http when the first request is sent. */
export const liveModels: ModelSource = {
  now: Date.now,
  sleep,
  async complete(request) {
    const { requestCompletion } = await import('./models/completion.ts');
    return requestCompletion(request);
  },
};
