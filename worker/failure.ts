// Turns whatever ended a run into the code, message and retryability of its `error` event. Pure.
import { BaseUrlError } from './models/base-url.ts';
import { type FailureKind, ModelError } from './models/errors.ts';
import { StoreError } from './session/store.ts';
import { SettingsError } from './settings.ts';
import { excerpt, wellFormed } from './text.ts';

export interface Failure {
  code: string;
  message: string;
  /** True when the same run may succeed later without a change. */
  retryable: boolean;
}

/** An end that is known by its code; also used as the reason of an abort signal. */
export class RunError extends Error {
  readonly code: string;
  readonly retryable: boolean;

  constructor(code: string, message: string, retryable = false) {
    super(message);
    this.code = code;
    this.retryable = retryable;
  }
}

const OWN_CODES: Partial<Record<FailureKind, string>> = {
  overflow: 'context_overflow',
  gateway: 'gateway_away',
  budget: 'budget',
  cancelled: 'cancelled',
};
const RETRYABLE: ReadonlySet<FailureKind> = new Set([
  'gateway',
  'rate_limit',
  'server',
  'network',
  'stall',
  'early_end',
  'malformed',
  'empty',
]);

/** `model_<kind>`, `context_overflow`, `gateway_away`, `budget`, `session_busy|lost`, `storage`, `cancelled`, `internal`. */
export function describeFailure(error: unknown, signal: AbortSignal): Failure {
  if (error instanceof ModelError && error.kind === 'cancelled' && signal.reason instanceof RunError) {
    return describeFailure(signal.reason, signal);
  }
  if (error instanceof RunError) {
    return { code: error.code, message: wellFormed(error.message), retryable: error.retryable };
  }
  if (error instanceof ModelError) {
    const code = OWN_CODES[error.kind] ?? `model_${error.kind}`;
    return { code, message: wellFormed(error.message), retryable: RETRYABLE.has(error.kind) };
  }
  if (error instanceof StoreError) {
    const code = error.code === 'storage' ? 'storage' : `session_${error.code}`;
    return { code, message: error.message, retryable: error.code === 'busy' };
  }
  if (error instanceof SettingsError || error instanceof BaseUrlError)
    return { code: 'settings', message: error.message, retryable: false };
  const message = error instanceof Error ? error.message : String(error);
  return { code: 'internal', message: excerpt(message, 500), retryable: false };
}
