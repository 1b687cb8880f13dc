// Gets the spawner to accept an attempt, or ends the job. Until it has accepted, the job's `end` is djinnd's to write.
import { setTimeout as sleep } from 'node:timers/promises';
import { beginNextAttempt } from '../db/job-changes.ts';
import type { Outcome, StoredPayload } from '../db/job-types.ts';
import { readPayload } from '../db/jobs.ts';
import { SpawnerError, SpawnerLost } from '../spawner/client.ts';
import type { StartParams } from '../spawner/wire.ts';
import { endByDjinnd } from './end.ts';
import { type Accepted, LAST_ATTEMPT, type RunDeps, type RunHandle } from './run-deps.ts';

const RECONNECT_LOOK_MS = 1_000;
const BUSY_RETRY_MS = 50;
/** The session's job before this one may still be cleaned up. */
const SESSION_BUSY_PATIENCE_MS = 30_000;

/** Null: the job has ended without this attempt. Rejects only when the run is detached. */
export async function beginAttempt(deps: RunDeps, run: RunHandle): Promise<Accepted | null> {
  const { untilDone, pool, spawner } = deps;
  const payload = await untilDone(run.signal, () => readPayload(pool, run.row.jobId));
  const busyUntilMs = Date.now() + SESSION_BUSY_PATIENCE_MS;
  for (;;) {
    run.signal.throwIfAborted();
    if (!spawner.connected) {
      await run.poked(RECONNECT_LOOK_MS, run.signal);
      continue;
    }
    try {
      const { cancelCause } = run.row;
      if (cancelCause !== null) {
        return await endUnlessKnown(deps, run, cancelCause, {
          code: cancelCause,
          message: 'ended before it was started',
        });
      }
      return await spawner.call('start', startParams(deps, run, payload));
    } catch (error) {
      if (error instanceof SpawnerLost) continue;
      if (!(error instanceof SpawnerError)) throw error;
      const settled = await settleRefusal(deps, run, error, Date.now() < busyUntilMs).catch(onLost);
      if (settled !== 'again') return settled;
    }
  }
}

/** An unanswered question: everything is asked again from the start. */
function onLost(error: unknown): 'again' {
  if (error instanceof SpawnerLost) return 'again';
  throw error;
}

async function settleRefusal(
  deps: RunDeps,
  run: RunHandle,
  { code, message }: SpawnerError,
  patient: boolean,
): Promise<Accepted | null | 'again'> {
  if (code === 'draining' || (code === 'session_busy' && patient)) {
    await sleep(BUSY_RETRY_MS, undefined, { signal: run.signal }).catch(() => run.signal.throwIfAborted());
    return 'again';
  }
  // An earlier start was accepted after all, and its answer lost.
  if (code === 'already_started') return findAttempt(deps, run);
  if (code !== 'forgotten') return endUnlessKnown(deps, run, 'spawn_failed', { code, message });
  const { jobId, attempt } = run.row;
  if (attempt >= LAST_ATTEMPT) return endUnlessKnown(deps, run, 'lost', { code, message });
  if (!(await deps.untilDone(run.signal, () => beginNextAttempt(deps.pool, jobId, attempt)))) return null;
  run.row.attempt = attempt + 1;
  return 'again';
}

/**
 * Ends the job, unless an earlier `start` without an answer was accepted. After `forget` the spawner refuses the
 * attempt, so that nobody else can end the job any more. The row's own attempt number is the compare-and-set.
 */
async function endUnlessKnown(
  deps: RunDeps,
  run: RunHandle,
  outcome: Outcome,
  cause: { code: string; message: string },
): Promise<Accepted | null> {
  const { jobId, attempt } = run.row;
  const { known } = await deps.spawner.call('forget', { jobId, attempt });
  if (known) return findAttempt(deps, run);
  const ended = await deps.untilDone(run.signal, () => endByDjinnd(deps, run.row, outcome, cause));
  if (ended !== null) deps.metrics.jobEnded?.(outcome, ended.engine);
  deps.signals.fire(jobId);
  return null;
}

async function findAttempt({ spawner }: RunDeps, { row }: RunHandle): Promise<Accepted> {
  const { attempts } = await spawner.call('list', {});
  const found = attempts.find(({ jobId, attempt }) => jobId === row.jobId && attempt === row.attempt);
  return { gatewayDir: found?.gatewayDir ?? null };
}

function startParams(deps: RunDeps, { row }: RunHandle, payload: StoredPayload): StartParams {
  const { granted, engine } = row;
  if (granted === null || engine === null) throw new Error(`${row.jobId} was claimed without a grant`);
  const { name, inputLimit, outputLimit } = deps.model;
  return {
    jobId: row.jobId,
    attempt: row.attempt,
    lastAttempt: row.attempt >= LAST_ATTEMPT,
    ...(row.attempt > 1 ? { retryReason: 'lost' as const } : {}),
    tenantId: row.tenantId,
    sessionId: row.sessionId,
    engine,
    ...granted,
    payload: {
      ...payload,
      models: [
        {
          id: row.model ?? name,
          ...(inputLimit === undefined ? {} : { inputLimit }),
          ...(outputLimit === undefined ? {} : { outputLimit }),
        },
      ],
    },
  };
}
