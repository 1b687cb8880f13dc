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
    async open({ tenantId, jobId, limits, totals }, account) {
      await createSlice(tree, tenantId, totals);
      const { memoryBytes, pids, cpuPercent } = limits;
      const call = await createCall(tree, tenantId, jobId, { memoryBytes, pids, cpuPercent }, account);
      // Not before: while it waits, the kernel makes no cgroup.
      void expectJoin(tree);
      return call;
    },
    usage: readUsage,
    evidence: readEvidence,
    kill: killCall,
    waitEmpty: (call, timeoutMs) => waitEmpty(call, { timeoutMs }),
    remove: async (call) => (await removeCall(call)).removed,
  };
}
