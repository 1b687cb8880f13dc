// What a program gives: events on stdout and session records on descriptor 3, each with its bound and its fault.
import type { Attempt } from './attempt.ts';
import { MAX_REJECTED_LINES } from './event-lines.ts';
import type { Launched } from './launch.ts';
import { failure } from './outcome.ts';
import { RecordRefused, takeRecords } from './records.ts';
import { takeEvents } from './streams.ts';

export interface ProgramOutput {
  /** Bytes of stdout so far. */
  bytes(): number;
  /** Resolves when both streams have ended. Never rejects: faults end the attempt. */
  ended: Promise<unknown>;
}

/** Reads both streams to their ends. */
export function readProgram(attempt: Attempt, launched: Launched): ProgramOutput {
  const { activity, lines, log, order } = attempt;
  const maxBytes = order.params.limits.outputBytes;
  const events = takeEvents(launched.stdout, activity, {
    lines,
    append: (block) => attempt.append(block),
    maxBytes,
    onNoise: () =>
      attempt.fail(
        failure('not_protocol', `the program wrote more than ${MAX_REJECTED_LINES} lines that are no events`),
      ),
    onLimit: () => {
      const message = `the program wrote more than ${maxBytes} bytes`;
      attempt.fail({ outcome: 'output_limit', cause: { code: 'output_limit', message } });
    },
  });
  const eventsEnded = events.done.catch((error) => {
    log.error({ err: error }, 'reading the program failed');
    attempt.fail(failure('internal', 'the events of the program could not be read'));
  });
  const recordsEnded = takeRecords(launched.records, activity, order.session, maxBytes).catch((error) => {
    if (error instanceof RecordRefused) return attempt.fail(failure('session_record', error.message));
    log.error({ err: error }, 'taking session records failed');
    attempt.fail(failure('session_record', 'the session records could not be taken'));
  });
  return { bytes: events.bytes, ended: Promise.all([eventsEnded, recordsEnded]) };
}
