// Decides how an attempt ended. Pure. The first cause wins, and nothing is a success by default.
import type { ProtocolState } from './event-lines.ts';
import type { LaunchEnd } from './launch.ts';
import type { Outcome } from './wire.ts';

/** Why a job ended as it did; `code` is stable, `message` is for people. */
export interface Cause {
  code: string;
  message: string;
  stage?: string;
  errno?: string;
}

/** Something that ends a running attempt from outside the program. */
export interface Stop {
  outcome: Outcome;
  cause: Cause;
}

/** A stop that makes the job fail. */
export function failure(code: string, message: string, errno?: string): Stop {
  return { outcome: 'failed', cause: { code, message, ...(errno === undefined ? {} : { errno }) } };
}

export interface EndFacts {
  /** The first stop that was asked for before the program's own end was seen. */
  stop: Stop | null;
  /** How the program ended; null when it was never launched or its end was never told. */
  end: LaunchEnd | null;
  protocol: Pick<ProtocolState, 'lastType' | 'wentOn' | 'error'>;
  /** null: the kernel does not count them. */
  agentOomKills: number | null;
}

export interface Ending {
  outcome: Outcome;
  /** Absent for `ok`. */
  cause?: Cause;
  exit: { code: number | null; signal: string | null } | null;
}

/**
 * In this order: what was asked for first (cancelled, timeout, …); a sandbox that failed; success, which takes exit
 * code 0 and `done` as the last event, with nothing after it; memory, if the kernel says that the agent itself was killed for it; the
 * program's own last `error`; its exit.
 */
export function decideEnding({ stop, end, protocol, agentOomKills }: EndFacts): Ending {
  const exit = end?.kind === 'exited' ? { code: end.code, signal: end.signal } : null;
  if (stop !== null) return { ...stop, exit };
  if (end === null) {
    return {
      outcome: 'lost',
      cause: { code: 'end_unknown', message: 'nobody saw how the program ended' },
      exit,
    };
  }
  if (end.kind === 'spawn_failed') {
    const { stage, errno, message } = end;
    return { outcome: 'spawn_failed', cause: { code: 'spawn_failed', message, stage, errno }, exit };
  }
  if (end.code === 0 && end.signal === null && protocol.lastType === 'done' && !protocol.wentOn)
    return { outcome: 'ok', exit };
  if (agentOomKills !== null && agentOomKills > 0) {
    return {
      outcome: 'oom',
      cause: { code: 'agent_oom', message: 'the agent went over its memory limit' },
      exit,
    };
  }
  return { outcome: 'failed', cause: causeOf(end, protocol), exit };
}

function causeOf(
  end: Extract<LaunchEnd, { kind: 'exited' }>,
  { lastType, wentOn, error }: EndFacts['protocol'],
): Cause {
  if (error !== null) return error;
  if (end.signal !== null) return { code: 'signal', message: `the program was ended by ${end.signal}` };
  if (end.code === null) return { code: 'end_unknown', message: 'the program left no exit code' };
  if (end.code !== 0) return { code: 'exit_code', message: `the program ended with exit code ${end.code}` };
  if (wentOn) return { code: 'after_done', message: 'the program wrote an event after done' };
  const last = lastType === null ? 'it wrote no event' : `its last event was ${lastType}`;
  return { code: 'no_done', message: `the program ended with exit code 0 without done: ${last}` };
}
