// The seam between a run and the place where its session log lives. Two providers: file.ts and descriptors.ts.
import type { Damage } from './reader.ts';
import type { RecordData, RecordType, SessionRecord } from './record.ts';

export interface SessionStore {
  /** Records found when the log was opened. */
  readonly found: number;
  readonly damage: readonly Damage[];
  /** What to call the log in a message. */
  readonly name: string;
  /**
   * Writes the record and resolves when the system has it (a killed process loses nothing), with `durable` when
   * it and all records before it are on disk. Gives the record as it is read back from its line, so that whoever
   * goes on with it holds what a reader of the log will have. Calls must not overlap. Rejects with a StoreError.
   */
  append<T extends RecordType>(
    type: T,
    data: RecordData[T],
    options?: { durable?: boolean },
  ): Promise<SessionRecord>;
  close(): Promise<void>;
}

/**
 * `busy`: another process writes this session. `lost`: a later writer took it over. `newer`: a later version of this
 * program wrote it. `storage`: everything else.
 */
export class StoreError extends Error {
  readonly code: 'busy' | 'lost' | 'newer' | 'storage';

  constructor(code: StoreError['code'], message: string) {
    super(message);
    this.code = code;
  }
}

/** Refuses a log that this version does not understand, before anything is written to it. */
export function refuseNewer({ newer }: { newer: number | null }, name: string): void {
  if (newer === null) return;
  throw new StoreError(
    'newer',
    `${name} holds records of version ${newer}: a later version of djinn wrote them`,
  );
}

/** One record, LF included, may have at most this many bytes. */
export const MAX_RECORD_BYTES = 16 * 1024 * 1024;

/** The form of a session id, as callers may choose it. */
export const SESSION_ID = /^[A-Za-z0-9_-]{1,64}$/;
