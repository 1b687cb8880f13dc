// Guards judge each tool call before it runs. They can only tighten: there is no way to say "allow", one denial is
// enough, and whatever is not clearly silence is a denial.

/** What a guard sees: frozen copies, so that nothing it does reaches the call. */
export interface GuardedCall {
  readonly sessionId: string;
  readonly id: string;
  readonly name: string;
  readonly effect: 'pure' | 'write' | 'exec';
  readonly arguments: Readonly<Record<string, unknown>>;
  /** Absolute working directory of the run. */
  readonly cwd: string;
  readonly signal: AbortSignal;
}

/** `ask` is a denial too: a run has no user to ask. The text reaches the model as the reason. */
export type Denial = { readonly deny: string } | { readonly ask: string };
/** Nothing, or a denial. A guard that throws, or does not answer within 60 s, denies. */
export type Guard = (call: GuardedCall) => Denial | undefined | Promise<Denial | undefined>;

const ANSWER_LIMIT_MS = 60_000;

function freeze<T>(value: T): T {
  if (typeof value === 'object' && value !== null) {
    for (const inner of Object.values(value)) freeze(inner);
    Object.freeze(value);
  }
  return value;
}

/** Rejects when the run is cancelled or the guard takes too long. */
async function inTime<T>(answer: Promise<T>, signal: AbortSignal): Promise<T> {
  let timer: NodeJS.Timeout | undefined;
  let cancel = (): void => {};
  const late = new Promise<never>((_, reject) => {
    timer = setTimeout(() => reject(new Error('it did not answer in time')), ANSWER_LIMIT_MS);
    cancel = () => reject(new Error('the run was cancelled'));
    if (signal.aborted) cancel();
    else signal.addEventListener('abort', cancel, { once: true });
  });
  try {
    return await Promise.race([answer, late]);
  } finally {
    clearTimeout(timer);
    signal.removeEventListener('abort', cancel);
  }
}

/** The reason of whatever a guard gave, or null for silence. Plain JavaScript may give anything. */
function reasonOf(verdict: unknown): string | null {
  if (verdict === undefined) return null;
  const { deny, ask } = (verdict ?? {}) as Record<string, unknown>;
  if (typeof deny === 'string') return deny;
  if (typeof ask === 'string') return `this needs a user's consent, and there is no user: ${ask}`;
  return 'a guard gave no clear verdict';
}

/**
 * Asks the guards in order. Gives null when none of them objects, else the first reason. `args` is the text of the
 * arguments: each guard gets a copy of its own. Never throws.
 */
export async function judgeCall(
  guards: readonly Guard[],
  call: Omit<GuardedCall, 'arguments'>,
  args: string,
): Promise<string | null> {
  for (const guard of guards) {
    try {
      const seen = Object.freeze({ ...call, arguments: freeze(JSON.parse(args)) });
      const reason = reasonOf(await inTime(Promise.resolve(guard(seen)), call.signal));
      if (reason !== null) return reason;
    } catch (error) {
      return `a guard failed: ${error instanceof Error ? error.message : String(error)}`;
    }
  }
  return null;
}
