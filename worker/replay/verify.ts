// Checks a session log from its file alone: every line's checksum and number, and every request, which is made again
// from the records before it and must have the logged digest. Changes nothing.
import { createLedger } from '../ledger.ts';
import { type Damage, readLog } from '../session/reader.ts';

export interface Problem {
  kind: 'damaged' | 'missing' | 'request';
  /** The record that is wrong, or the one before the place; 0 at the start. */
  seq: number;
  /** Byte offset of a damaged line. */
  offset?: number;
  /** How many records are missing. */
  count?: number;
  message: string;
}

export interface Verification {
  records: number;
  requests: number;
  /** Requests whose body was made again and has the logged digest. */
  verified: number;
  /** Requests that another version of the program wrote in a way that this one cannot make again. */
  unverified: number[];
  problems: Problem[];
}

/** The lines between are there, but damaged. */
const isExplained = ({ seq, count = 0 }: Problem, damage: readonly Damage[]): boolean =>
  damage.filter(({ afterSeq }) => afterSeq >= seq && afterSeq < seq + count).length >= count;

/** Reads the log from the descriptor's position to its end. */
export function verifyLog(fd: number): Verification {
  const ledger = createLedger();
  const result: Verification = { records: 0, requests: 0, verified: 0, unverified: [], problems: [] };
  const { problems } = result;
  let lastSeq = 0;
  const log = readLog(fd, (record) => {
    if (record.seq !== lastSeq + 1) {
      const count = record.seq - lastSeq - 1;
      problems.push({
        kind: 'missing',
        seq: lastSeq,
        count,
        message: `${count} record${count === 1 ? '' : 's'} missing after ${lastSeq}`,
      });
    }
    lastSeq = record.seq;
    if (record.type === 'request') {
      result.requests += 1;
      const derived = ledger.derive(record.data);
      if (derived === null) result.unverified.push(record.seq);
      else if (derived.sha256 === record.data.sha256 && derived.bytes === record.data.bytes) {
        result.verified += 1;
      } else {
        const { sha256, bytes } = record.data;
        problems.push({
          kind: 'request',
          seq: record.seq,
          message:
            `request ${record.seq} was ${bytes} bytes with sha256 ${sha256}; ` +
            `the records before it give ${derived.bytes} bytes with ${derived.sha256}`,
        });
      }
    }
    ledger.take(record);
  });
  for (const { offset, bytes, reason, afterSeq } of log.damage) {
    problems.push({
      kind: 'damaged',
      seq: afterSeq,
      offset,
      message: `the line of ${bytes} bytes at byte ${offset}, after record ${afterSeq}: ${reason}`,
    });
  }
  result.records = log.records;
  result.problems = problems.filter((one) => one.kind !== 'missing' || !isExplained(one, log.damage));
  result.problems.sort((a, b) => a.seq - b.seq);
  return result;
}
