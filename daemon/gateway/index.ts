// The model gateway: one socket per job, through which its sandbox reaches the models that it may use, and nothing else.
import { createBudget } from './budget.ts';
import { JobSocket } from './job-socket.ts';
import { createAllowance } from './request-body.ts';
import { type ServeContext, serveRequest } from './serve.ts';
import { DEFAULT_LIMITS, type GatewayDeps, type GatewayJob } from './types.ts';
import { parseEndpoint, UpstreamConnections } from './upstream.ts';

export type { GatewayDeps, GatewayJob, GatewayLimits, Spent, TokenCount, Upstream } from './types.ts';

export interface Gateway {
  /** Listens on `<gatewayDir>/model.sock`, mode 0660. Idempotent; replaces a socket that a dead predecessor left. */
  open(job: GatewayJob): Promise<void>;
  /** Aborts what is in flight for the job and waits until its usage is told. A job that is not open is no error. */
  close(jobId: string): Promise<void>;
  /** Closes all, letting answers finish within the grace. */
  stop(graceMs: number): Promise<void>;
}

interface OpenJob {
  job: GatewayJob;
  socket: JobSocket;
}

export function createGateway(deps: GatewayDeps): Gateway {
  const limits = { ...DEFAULT_LIMITS, ...deps.limits };
  const budget = createBudget(deps.budget);
  const connections = new UpstreamConnections();
  const ofAll = createAllowance(limits.allBodyBytes);
  const open = new Map<string, OpenJob>();
  const turns = new Map<string, Promise<void>>();

  /** What is done to one job happens in the order in which it was asked for. */
  const inTurn = (jobId: string, action: () => Promise<void>): Promise<void> => {
    const turn = (turns.get(jobId) ?? Promise.resolve()).then(action);
    const settled = turn.catch(() => undefined);
    turns.set(jobId, settled);
    void settled.then(() => turns.get(jobId) === settled && turns.delete(jobId));
    return turn;
  };

  const closeNow = async (jobId: string, graceMs: number) => {
    const entry = open.get(jobId);
    open.delete(jobId);
    await entry?.socket.close(graceMs);
  };

  const openNow = async (job: GatewayJob) => {
    const entry = open.get(job.jobId);
    if (entry !== undefined && entry.job.gatewayDir === job.gatewayDir && entry.job.attempt === job.attempt)
      return;
    await closeNow(job.jobId, 0);
    const log = deps.log.child({ jobId: job.jobId, tenantId: job.tenantId });
    const context: ServeContext = {
      deps: { ...deps, log },
      limits,
      budget,
      connections,
      job,
      slots: { taken: 0 },
      bodies: { mostBytes: limits.bodyBytes, ofJob: createAllowance(limits.jobBodyBytes), ofAll },
    };
    const socket = new JobSocket(
      job.gatewayDir,
      (request, response, signal) => serveRequest(context, request, response, signal),
      (error) => log.error({ err: error }, 'gateway request failed'),
    );
    await socket.listen();
    open.set(job.jobId, { job, socket });
  };

  return {
    open: (job) => inTurn(job.jobId, () => openNow(job)),
    close: (jobId) => inTurn(jobId, () => closeNow(jobId, 0)),
    async stop(graceMs) {
      await Promise.all([...open.keys()].map((jobId) => inTurn(jobId, () => closeNow(jobId, graceMs))));
      connections.close();
    },
  };
}

/** Throws an Error that says what is wrong with the base URL of a model. For a check at start. */
export function checkUpstream(baseUrl: string): void {
  parseEndpoint(baseUrl);
}
