// Turns whatever ended a run into the code, message and retryability of its `error` event. Pure.
import { type ErrorCode, isRetryable } from './error-codes.ts';
import { BaseUrlError } from './models/base-url.ts';
import { type FailureKind, ModelError } from './models/errors.ts';
import { StoreError } from './session/store.ts';
import { SettingsError } from './settings.ts';
import { excerpt, wellFormed } from './text.ts';

export interface Failure {
  code: ErrorCode;
  message: string;
  /** True when the same run may succeed later without a change. */
  retryable: boolean;
}

/** An end that is known by its code; also used as the reason of an abort signal. */
export class RunError extends Error {
  readonly code: ErrorCode;

  constructor(code: ErrorCode, message: string) {
    super(message);
    this.code = code;
  }
}

const MODEL_CODES: Record<FailureKind, ErrorCode> = {
  overflow: 'context_overflow',
  gateway: 'gateway_away',
  budget: 'budget',
  cancelled: 'cancelled',
  quota: 'model_quota',
  auth: 'model_auth',
  unknown_model: 'model_unknown_model',
  not_api: 'model_not_api',
  content_filter: 'model_content_filter',
  rate_limit: 'model_rate_limit',
  server: 'model_server',
  network: 'model_network',
  stall: 'model_stall',
  early_end: 'model_early_end',
  malformed: 'model_malformed',
  empty: 'model_empty',
  bad_request: 'model_bad_request',
};
const STORE_CODES: Record<StoreError['code'], ErrorCode> = {
  busy: 'session_busy',
  lost: 'session_lost',
  newer: 'session_newer',
  storage: 'storage',
};

function codeOf(error: unknown): ErrorCode {
  if (error instanceof RunError) return error.code;
  if (error instanceof ModelError) return MODEL_CODES[error.kind];
  if (error instanceof StoreError) return STORE_CODES[error.code];
  return error instanceof SettingsError || error instanceof BaseUrlError ? 'settings' : 'internal';
}

/** Any error as what the `error` event says of it; a cancellation by the reason that the signal carries. */
export function describeFailure(error: unknown, signal: AbortSignal): Failure {
  if (error instanceof ModelError && error.kind === 'cancelled' && signal.reason instanceof RunError) {
    return describeFailure(signal.reason, signal);
  }
  const code = codeOf(error);
  const message = error instanceof Error ? error.message : String(error);
  return {
    code,
    message: code === 'internal' ? excerpt(message, 500) : wellFormed(message),
    retryable: isRetryable(code),
  };
}
