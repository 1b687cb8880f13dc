// The monthly budget while requests are open: what they may cost is set aside until the provider's figure is known.
import type { TokenCount } from './types.ts';

export type Reserved = { kind: 'reserved'; giveBack: () => void } | { kind: 'spent' } | { kind: 'aborted' };

export interface Budget {
  /**
   * Sets the reservation aside. While all that is left is reserved by open requests of the tenant, waits for one of them;
   * `spent` only when really nothing is left. One request may overshoot: it is let through while anything is left, however
   * long its answer gets.
   */
  reserve(tenantId: string, reservation: TokenCount, signal: AbortSignal): Promise<Reserved>;
}

interface Account {
  tokens: number;
  waiting: Set<() => void>;
}

export function createBudget(
  remaining: (tenantId: string) => Promise<number | null> | number | null,
): Budget {
  const accounts = new Map<string, Account>();

  const take = (tenantId: string, tokens: number): (() => void) => {
    const account = accounts.get(tenantId) ?? { tokens: 0, waiting: new Set() };
    account.tokens += tokens;
    accounts.set(tenantId, account);
    let held = true;
    return () => {
      if (!held) return;
      held = false;
      account.tokens -= tokens;
      if (account.tokens === 0) accounts.delete(tenantId);
      for (const wake of [...account.waiting]) wake();
    };
  };

  return {
    async reserve(tenantId, { inputTokens, outputTokens }, signal) {
      for (;;) {
        const left = await remaining(tenantId);
        if (signal.aborted) return { kind: 'aborted' };
        // No await between the check and the reservation: they are one step.
        const account = accounts.get(tenantId);
        if (left === null || left - (account?.tokens ?? 0) > 0) {
          return { kind: 'reserved', giveBack: take(tenantId, inputTokens + outputTokens) };
        }
        if (left <= 0 || account === undefined) return { kind: 'spent' };
        await givenBack(account, signal);
      }
    },
  };
}

/** Resolves at the next return of a reservation, or when the signal fires. */
function givenBack({ waiting }: Account, signal: AbortSignal): Promise<void> {
  return new Promise((resolve) => {
    const wake = () => {
      waiting.delete(wake);
      signal.removeEventListener('abort', wake);
      resolve();
    };
    waiting.add(wake);
    signal.addEventListener('abort', wake, { once: true });
  });
}
