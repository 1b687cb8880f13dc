// The monthly budget while requests are open: what they may cost is set aside until the provider's figure is known.
import type { TokenCount } from './types.ts';

export interface Budget {
  /**
   * Sets the reservation aside and returns how to give it back, or null when nothing is left. One request may overshoot:
   * it is let through while anything is left, however long its answer gets.
   */
  reserve(tenantId: string, reservation: TokenCount): Promise<(() => void) | null>;
}

export function createBudget(
  remaining: (tenantId: string) => Promise<number | null> | number | null,
): Budget {
  const reserved = new Map<string, number>();
  return {
    async reserve(tenantId, { inputTokens, outputTokens }) {
      const left = await remaining(tenantId);
      // No await from here on: the check and the reservation are one step.
      const before = reserved.get(tenantId) ?? 0;
      if (left !== null && left - before <= 0) return null;
      const tokens = inputTokens + outputTokens;
      reserved.set(tenantId, before + tokens);
      let open = true;
      return () => {
        if (!open) return;
        open = false;
        const after = (reserved.get(tenantId) ?? 0) - tokens;
        if (after > 0) reserved.set(tenantId, after);
        else reserved.delete(tenantId);
      };
    },
  };
}
