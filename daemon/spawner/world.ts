// What an attempt is made of and what it shares with the others. Types only.
import type { Logger } from 'pino';
import type { CallGroup } from '../../cgroups/index.ts';
import type { Account } from './accounts.ts';
import type { Calls } from './calls.ts';
import type { EngineDefinition } from './engines.ts';
import type { Launch } from './launch.ts';
import type { SessionFile } from './records.ts';
import type { Spool } from './spool.ts';
import type { AttemptRef, JobPayload, StartParams } from './wire.ts';

/** Everything that one attempt needs, checked and made. */
export interface Order {
  params: Omit<StartParams, 'payload'>;
  /** Let go once the program has it: a prompt may be large. */
  payload: JobPayload | null;
  account: Account;
  engine: EngineDefinition;
  runDir: string;
  gatewayDir: string;
  workspaceDir: string;
  workspace: 'existing' | 'new';
  sessionPath: string;
  session: SessionFile;
  spool: Spool;
  startedAt: string;
}

/** What the attempts of one spawner share. */
export interface World {
  launch: Launch;
  /** Null: this machine has no cgroups for calls. */
  calls: Calls | null;
  /** Levels of all controls as the probe found them. */
  levels: Readonly<Record<string, string>>;
  log: Logger;
  timing: Timing;
  /** The program exists. */
  onRunning(ref: AttemptRef): void;
  /** A cgroup could not be removed. */
  onLeak(call: CallGroup): void;
}

/** Milliseconds. */
export interface Timing {
  /** From TERM to KILL. */
  graceMs: number;
  /** Quiet time of the streams after the program's end, before the rest of its tree is killed. */
  drainMs: number;
  sampleMs: number;
  /** A program that has written `done` or `error` must exit within twice this time. */
  lingerMs: number;
}

export type Last = 'end' | 'lost';
