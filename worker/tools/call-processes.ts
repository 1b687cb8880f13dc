// Which processes belong to one bash call, and how they are ended. A shell is the leader of its own session, so its
// children are known by ancestry, session and process group; what has cut all three ties is known by the tools group,
// or, where there is none, by the output pipe that it still holds.
import { statSync } from 'node:fs';
import { setTimeout as sleep } from 'node:timers/promises';
import { listProcesses, type ProcessEntry, readGroup, signalProcess } from './process-table.ts';

const KILL_LIMIT_MS = 3000;
const ROUND_MS = 20;

export interface CallProcesses {
  /** Living processes of the call. */
  find(): ProcessEntry[];
  signal(signal: NodeJS.Signals): void;
  /** KILL, again and again until none is left. False when some are after 3 s. */
  kill(): Promise<boolean>;
  /** The call is over: its processes no longer count as those of a running call. */
  close(): void;
}

interface Call {
  shellPid: number;
  procsFile: string | undefined;
  pipe: { device: number; inode: number } | null;
  /** Processes that were in the tools group before the call. */
  before: Set<string>;
  /** Sessions and processes seen so far: ancestry is lost when a parent dies. */
  sessions: Set<number>;
  seen: Set<string>;
}

const running = new Set<Call>();
const key = (entry: ProcessEntry): string => `${entry.pid}:${entry.startTicks}`;

/** What is in the tools group now; taken before the call's shell starts. */
export function snapshotGroup(procsFile: string | undefined): Set<string> {
  if (procsFile === undefined) return new Set();
  const group = readGroup(procsFile);
  return new Set(
    listProcesses()
      .filter((entry) => group.has(entry.pid))
      .map(key),
  );
}

/** Follows the processes of a shell that was started as leader of its own session. */
export function followCall(
  shellPid: number,
  options: { procsFile: string | undefined; before: Set<string>; pipe: Call['pipe'] },
): CallProcesses {
  const call: Call = { shellPid, ...options, sessions: new Set([shellPid]), seen: new Set() };
  running.add(call);
  const find = () => processesOf(call, listProcesses());
  return {
    find,
    signal(signal) {
      for (const entry of find()) signalProcess(entry, signal);
    },
    async kill() {
      for (const endMs = Date.now() + KILL_LIMIT_MS; Date.now() < endMs; await sleep(ROUND_MS)) {
        const left = find();
        if (left.length === 0) return true;
        for (const entry of left) signalProcess(entry, 'SIGKILL');
      }
      return find().length === 0;
    },
    close: () => running.delete(call),
  };
}

function processesOf(call: Call, table: ProcessEntry[]): ProcessEntry[] {
  let mine = kin(call, table, []);
  const taken = strangers(call, table, mine);
  // A stranger that is taken in brings its own family with it.
  if (taken.length > 0) mine = kin(call, table, taken);
  const found = table.filter((entry) => mine.has(entry.pid));
  for (const entry of found) {
    call.seen.add(key(entry));
    if (entry.sessionId !== 0) call.sessions.add(entry.sessionId);
  }
  return found.filter((entry) => !entry.isEnding);
}

/** By ancestry, session or process group, to the end of the chain. Session 0 lies outside this pid namespace. */
function kin(call: Call, table: ProcessEntry[], taken: ProcessEntry[]): Set<number> {
  const mine = new Set([call.shellPid, ...taken.map((entry) => entry.pid)]);
  const sessions = new Set(call.sessions);
  for (let grew = true; grew; ) {
    grew = false;
    for (const entry of table) {
      const belongs =
        mine.has(entry.pid) ||
        mine.has(entry.parentPid) ||
        sessions.has(entry.sessionId) ||
        entry.groupId === call.shellPid ||
        call.seen.has(key(entry));
      if (!belongs) continue;
      if (entry.sessionId !== 0 && !sessions.has(entry.sessionId)) {
        sessions.add(entry.sessionId);
        grew = true;
      }
      if (mine.has(entry.pid)) continue;
      mine.add(entry.pid);
      grew = true;
    }
  }
  return mine;
}

/** Processes without a tie to any call that are this one's all the same. */
function strangers(call: Call, table: ProcessEntry[], mine: Set<number>): ProcessEntry[] {
  if (call.procsFile === undefined) {
    const { pipe } = call;
    if (pipe === null) return [];
    return table.filter(
      (entry) => !mine.has(entry.pid) && entry.pid !== process.pid && holds(entry.pid, pipe),
    );
  }
  // With other calls running, a daemon without ties may be theirs: it is spared, and ends with the job.
  if (running.size > 1) return [];
  const group = readGroup(call.procsFile);
  const earlier = new Set(table.filter((entry) => call.before.has(key(entry))).map((entry) => entry.pid));
  const earlierSessions = new Set(
    table.filter((entry) => earlier.has(entry.pid) && entry.sessionId !== 0).map((entry) => entry.sessionId),
  );
  return table.filter(
    (entry) =>
      group.has(entry.pid) &&
      !mine.has(entry.pid) &&
      !earlier.has(entry.pid) &&
      !earlier.has(entry.parentPid) &&
      !earlierSessions.has(entry.sessionId),
  );
}

function holds(pid: number, pipe: { device: number; inode: number }): boolean {
  return ['1', '2'].some((fd) => {
    try {
      const stat = statSync(`/proc/${pid}/fd/${fd}`);
      return stat.ino === pipe.inode && stat.dev === pipe.device;
    } catch {
      return false; // Closed, gone or not ours to look into.
    }
  });
}
