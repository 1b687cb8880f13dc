// Keeps one tenant's burst of requests from holding every database connection: one at a time per tenant, few in all.

export interface Lanes {
  /** Runs `work` when it is the tenant's turn. Null: too many of this tenant wait already. */
  run<T>(tenantId: string, work: () => Promise<T>): Promise<T> | null;
}

/** At most `atOnce` in work over all tenants, and `waiting` of one tenant waiting. */
export function createLanes(atOnce: number, waiting: number): Lanes {
  const lanes = new Map<string, { count: number; last: Promise<unknown> }>();
  const waitingForSlot: (() => void)[] = [];
  let free = atOnce;

  async function slot(): Promise<void> {
    if (free > 0) free -= 1;
    // Whoever ends hands its slot on instead of giving it back.
    else await new Promise<void>((resolve) => waitingForSlot.push(resolve));
  }

  function handOn(): void {
    const next = waitingForSlot.shift();
    if (next === undefined) free += 1;
    else next();
  }

  return {
    run(tenantId, work) {
      const lane = lanes.get(tenantId) ?? { count: 0, last: Promise.resolve() };
      if (lane.count > waiting) return null;
      lanes.set(tenantId, lane);
      lane.count += 1;
      const turn = lane.last.then(async () => {
        await slot();
        try {
          return await work();
        } finally {
          handOn();
          lane.count -= 1;
          if (lane.count === 0) lanes.delete(tenantId);
        }
      });
      // The next one's turn comes whether this one worked or not.
      lane.last = turn.catch(() => {});
      return turn;
    },
  };
}
