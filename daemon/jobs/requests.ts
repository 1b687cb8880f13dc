// What callers ask of jobs: admit, look, cancel, read events. Turns a database that is away into a Problem.
import { requestCancel } from '../db/job-changes.ts';
import type { CancelCause } from '../db/job-types.ts';
import type { JobRow } from '../db/jobs.ts';
import { isDatabaseAway } from '../db/pool.ts';
import { Problem } from '../errors.ts';
import { admitJob } from './admission.ts';
import { endQueued } from './end.ts';
import { openEvents } from './events.ts';
import type { Health } from './health.ts';
import { createLanes } from './lanes.ts';
import type { RunDeps } from './run-deps.ts';
import type { Caller, Jobs } from './types.ts';
import { listVisible, maySee, readVisible, viewJob } from './views.ts';
import { JOBS_CHANNEL } from './wakes.ts';

export interface RequestDeps extends RunDeps {
  health: Health;
  /** A job was admitted or ended: the dispatcher has something to look at. */
  wake(): void;
  /** Hands the wish to the run, if this machine has it. */
  cancelRun(jobId: string, cause: CancelCause): boolean;
}

/** Requests of one tenant that wait to be admitted; each holds its body in memory. */
const MOST_WAITING = 256;

const tooMany = (): Problem =>
  new Problem('DJ_RATE_LIMITED', 'too many requests of this tenant wait to be admitted', {
    headers: { 'retry-after': '1' },
  });

type Requests = Pick<Jobs, 'admit' | 'get' | 'list' | 'cancel' | 'cancelForBudget' | 'events'>;

export function createRequests(deps: RequestDeps): Requests {
  const { pool, boss, self, health } = deps;
  const lanes = createLanes(Math.max(1, Math.floor((pool.options.max ?? 10) / 2)), MOST_WAITING);
  return {
    admit: (caller, body, idempotencyKey) =>
      orNotReady(async () => {
        refuseNow(health);
        if (!maySee(caller, body.tenantId)) throw new Problem('DJ_NOT_FOUND', 'there is no such tenant');
        const engines = () => health.engines;
        const turn = lanes.run(body.tenantId, () =>
          admitJob({ pool, boss, self, engines }, body, idempotencyKey ?? null),
        );
        if (turn === null) throw tooMany();
        const { row, created } = await turn;
        if (created) {
          deps.metrics.jobAdmitted?.();
          deps.wake();
        }
        return { job: viewJob(row), created };
      }),
    get: (caller, jobId) => orNotReady(async () => viewJob(await readVisible(pool, caller, jobId))),
    list: (caller, query) => orNotReady(() => listVisible(pool, caller, query)),
    cancel: (caller, jobId) =>
      orNotReady(async () =>
        viewJob(await cancelJob(deps, await readVisible(pool, caller, jobId), 'cancelled')),
      ),
    cancelForBudget: async (jobId) => {
      if (!deps.cancelRun(jobId, 'budget')) return;
      await deps.untilDone(new AbortController().signal, () => requestCancel(pool, jobId, 'budget'));
    },
    events: (caller: Caller, jobId, options) =>
      orNotReady(async () => openEvents(deps, await readVisible(pool, caller, jobId), options)),
  };
}

function refuseNow({ stopping, enforcement }: Health): void {
  if (stopping)
    throw new Problem('DJ_STOPPING', 'send it again in a moment', { headers: { 'retry-after': '5' } });
  if (enforcement?.refused === true) {
    throw new Problem('DJ_ENFORCEMENT', enforcement.reason ?? 'djinnd doctor names the limit and the mend');
  }
}

/** Works in every state and changes nothing the second time. Returns the row as it then is. */
async function cancelJob(deps: RequestDeps, row: JobRow, cause: CancelCause): Promise<JobRow> {
  const { pool, metrics, signals } = deps;
  if (row.state === 'ended') return row;
  if (row.state === 'queued') {
    const ended = await endQueued(deps, row, cause, { code: cause, message: 'ended while it was queued' });
    if (ended !== null) {
      metrics.jobEnded?.(cause, null);
      signals.fire(row.jobId);
      deps.wake();
      return ended;
    }
    // Claimed in this moment.
  }
  const wished = await requestCancel(pool, row.jobId, cause);
  if (wished === null) return (await readVisible(pool, OPERATOR, row.jobId)) as JobRow;
  if (!deps.cancelRun(row.jobId, wished.cancelCause ?? cause)) {
    // Another machine has it, or nobody until the next reconciliation, which reads the row.
    await pool.query('select pg_notify($1, $2)', [JOBS_CHANNEL, `cancel ${row.jobId}`]);
  }
  return wished;
}

/** For a second look at a row that the caller was shown already. */
const OPERATOR: Caller = { keyId: '', role: 'operator', tenantIds: [] };

async function orNotReady<T>(request: () => Promise<T>): Promise<T> {
  try {
    return await request();
  } catch (error) {
    if (!isDatabaseAway(error)) throw error;
    const problem = new Problem('DJ_NOT_READY', 'the database cannot be reached', {
      headers: { 'retry-after': '2' },
    });
    problem.cause = error;
    throw problem;
  }
}
