// A call's cgroup as an attempt uses it. The one place where the spawner's limits become cgroup limits.
import {
  type CallEvidence,
  type CallGroup,
  type CallUsage,
  createCall,
  createSlice,
  expectJoin,
  killCall,
  readEvidence,
  readUsage,
  removeCall,
  type Tree,
  waitEmpty,
} from '../../cgroups/index.ts';
import type { Account } from './accounts.ts';
import type { StartParams } from './wire.ts';

export type CallOrder = Pick<StartParams, 'tenantId' | 'jobId' | 'limits' | 'totals'>;

export interface Calls {
  /** A call will be opened and joined in a moment: what the kernel can prepare for that begins. */
  expect(): void;
  /** Makes the call's cgroup with every limit in place. Throws LimitError; then nothing is left. */
  open(params: CallOrder, account: Account): Promise<CallGroup>;
  usage(call: CallGroup): CallUsage;
  evidence(call: CallGroup): CallEvidence;
  kill(call: CallGroup): void;
  waitEmpty(call: CallGroup, timeoutMs: number): Promise<boolean>;
  /** False when it leaked. */
  remove(call: CallGroup): Promise<boolean>;
}

export function callsIn(tree: Tree): Calls {
  return {
    expect: () => void expectJoin(tree),
    async open({ tenantId, jobId, limits, totals }, account) {
      await createSlice(tree, tenantId, totals);
      const { memoryBytes, pids, cpuPercent } = limits;
      return createCall(tree, tenantId, jobId, { memoryBytes, pids, cpuPercent }, account);
    },
    usage: readUsage,
    evidence: readEvidence,
    kill: killCall,
    waitEmpty: (call, timeoutMs) => waitEmpty(call, { timeoutMs }),
    remove: async (call) => (await removeCall(call)).removed,
  };
}
