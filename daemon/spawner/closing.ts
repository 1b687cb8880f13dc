// From the program's end to the sealed spool, in this order: drain, kill the tree, wait until it is empty, evidence,
// remove, last line, sync. Never waits for the end of a stream that a descendant may hold open before the kill.
import type { CallEvidence } from '../../cgroups/index.ts';
import type { Attempt } from './attempt.ts';
import { removeRunDirectory } from './job-directories.ts';
import type { LaunchEnd } from './launch.ts';
import { decideEnding, type Ending } from './outcome.ts';
import { presentCounters } from './sampling.ts';
import { drain } from './streams.ts';
import type { Last } from './world.ts';

/** Longest wait for a chatty descendant before the kill. */
const MAX_DRAIN_MS = 1000;
/** Quiet time after which a stream that is still open when nothing lives any more is given up. */
const DEAD_IDLE_MS = 2000;
/** A tree that does not die in this many rounds of a second holds a process that the kernel cannot end. */
const KILL_ROUNDS = 60;

interface Remains {
  evidence: CallEvidence | null;
  /** Processes that the kernel did not end. */
  survivors: boolean;
  leaked: boolean;
}

/** Ends the attempt for good. Never rejects; resolves when the last line is on disk. */
export async function closeAttempt(attempt: Attempt, end: LaunchEnd | null): Promise<Last> {
  const { launched, activity, world, order } = attempt;
  if (launched !== null)
    await drain(attempt.readers, activity, { idleMs: world.timing.drainMs, maxMs: MAX_DRAIN_MS });
  const survivors = !(await emptyTree(attempt));
  if (launched !== null) {
    await drain(attempt.readers, activity, { idleMs: DEAD_IDLE_MS, maxMs: Number.POSITIVE_INFINITY });
    for (const stream of [launched.stdin, launched.stdout, launched.stderr, launched.records])
      stream.destroy();
    await attempt.readers;
  }
  attempt.stderr.close();
  order.session.close();
  const remains = await removeAll(attempt, survivors);
  const ending = decideEnding({
    stop: attempt.stopped,
    end,
    protocol: attempt.lines.state,
    agentOomKills: remains.evidence?.agentOomKills ?? null,
  });
  const last: Last = ending.outcome === 'lost' && !order.params.lastAttempt ? 'lost' : 'end';
  await order.spool.seal((seq) => {
    attempt.lines.rewind(seq);
    return attempt.lines.own(
      last === 'end' ? endLine(attempt, ending, remains) : lostLine(attempt, ending, remains),
    );
  });
  attempt.log.info({ outcome: ending.outcome, cause: ending.cause?.code }, 'attempt sealed');
  return last;
}

/** Kills until nothing is left; false when something will not die. */
async function emptyTree(attempt: Attempt): Promise<boolean> {
  const { call, world } = attempt;
  attempt.killTree();
  if (call === null || world.calls === null) return true;
  try {
    for (let round = 0; round < KILL_ROUNDS; round += 1) {
      if (await world.calls.waitEmpty(call, 1000)) return true;
      attempt.killTree();
    }
    attempt.log.error('processes of the attempt survive KILL');
  } catch (error) {
    attempt.log.error({ err: error }, 'nobody can tell whether the call is empty');
  }
  return false;
}

async function removeAll(attempt: Attempt, survivors: boolean): Promise<Remains> {
  const { call, world, launched } = attempt;
  const remains: Remains = { evidence: null, survivors, leaked: false };
  try {
    if (call !== null && world.calls !== null) {
      remains.evidence = world.calls.evidence(call);
      remains.leaked = !(await world.calls.remove(call));
      if (remains.leaked) world.onLeak(call);
    }
    const left = await (launched === null ? removeRunDirectory(attempt.order.runDir) : launched.close());
    if (left.length > 0) attempt.log.error({ left }, 'the run directory is not empty');
  } catch (error) {
    attempt.log.error({ err: error }, 'cleaning up after the attempt failed');
  }
  return remains;
}

function evidenceOf(attempt: Attempt, { evidence, survivors, leaked }: Remains): Record<string, unknown> {
  const { rejectedLines, firstRejection } = attempt.lines.state;
  return {
    ...evidence,
    rejectedLines,
    ...(firstRejection === null ? {} : { firstRejection }),
    outputBytes: attempt.outputBytes(),
    stderrBytes: attempt.stderr.bytes,
    stderrDroppedBytes: attempt.stderr.droppedBytes,
    ...(survivors ? { survivors } : {}),
    ...(leaked ? { leakedCgroup: leaked } : {}),
  };
}

function endLine(
  attempt: Attempt,
  ending: Ending,
  remains: Remains,
): { type: string } & Record<string, unknown> {
  const { order, world, call } = attempt;
  const { outcome, cause, exit } = ending;
  return {
    type: 'end',
    outcome,
    ...(cause === undefined ? {} : { cause }),
    exit,
    evidence: evidenceOf(attempt, remains),
    resources: {
      wallMs: Date.now() - Date.parse(order.startedAt),
      ...(remains.evidence === null ? {} : presentCounters(remains.evidence)),
    },
    enforcement: { ...world.levels, ...call?.enforced },
    engine: order.params.engine,
  };
}

function lostLine(
  attempt: Attempt,
  ending: Ending,
  remains: Remains,
): { type: string } & Record<string, unknown> {
  const reason = ending.cause?.code ?? 'end_unknown';
  return { type: 'job', state: 'lost', reason, evidence: evidenceOf(attempt, remains) };
}
