// `djinn sessions`: which sessions there are, what is in one, and its records for other programs. Changes nothing.
import { readdirSync, statSync } from 'node:fs';
import { join } from 'node:path';
import { UsageError } from '../arguments.ts';
import { isLocked } from '../session/lock.ts';
import { readWholeLog } from '../session/log-file.ts';
import { SESSION_ID, StoreError } from '../session/store.ts';
import { type SessionSummary, stepsOf, summarize } from '../session/summary.ts';
import { type CommandPorts, jsonLine, oneSession, readWords } from './ports.ts';

export const usage = `djinn sessions [list] [--json]
djinn sessions show SESSION [--json]
djinn sessions export SESSION

list      the sessions in DJINN_HOME, the latest first: when, state, requests, tokens, id and first prompt.
          State: done or error (how its last run ended), running (a process has it open), open (its process died)
show      one session, a line per record: number, time, type, gist. A number with * is a record after which no call
          waits for its result: \`djinn fork --at\` there adds nothing
export    its records as NDJSON on stdout, byte for byte. Damaged lines are left out, named on stderr, and exit 1

SESSION is an id in DJINN_HOME or the path of a log. Logs are read while a run writes to them; nothing is locked.

      --json    one JSON object per line: of list, one per session; of show, one per record
  -h, --help    this text

Exit codes: 0 done, 1 no such session or damaged lines, 2 wrong usage.
`;

const OPTIONS = { json: { type: 'boolean' } } as const;
const TEXT_LENGTH = 100;
const STATE_WIDTH = 12;

/** Text of a session on one line of a terminal: nothing in it may move the cursor, colour or turn the line around. */
const plain = (text: string): string =>
  text
    .replace(/\s+/g, ' ')
    // biome-ignore lint/suspicious/noControlCharactersInRegex: these are what is replaced.
    .replace(/[\u0000-\u001f\u007f-\u009f\u200b-\u200f\u2028-\u202e\u2066-\u2069]/g, '\uFFFD')
    .trim();

type Listed = Omit<SessionSummary, 'state'> & {
  state: SessionSummary['state'] | 'running' | 'unreadable';
  bytes: number;
  message?: string;
};

function describe(dir: string, sessionId: string): Listed {
  const path = join(dir, `${sessionId}.jsonl`);
  const bytes = statSync(path, { throwIfNoEntry: false })?.size ?? 0;
  try {
    const summary = summarize(sessionId, readWholeLog(path).all);
    const running = summary.state === 'open' && isLocked(join(dir, `${sessionId}.lock`));
    return { ...summary, ...(running ? { state: 'running' as const } : {}), bytes };
  } catch (error) {
    if (!(error instanceof StoreError)) throw error;
    return { ...summarize(sessionId, []), state: 'unreadable', bytes, message: error.message };
  }
}

function sessionIds(dir: string | null): string[] {
  if (dir === null) throw new StoreError('storage', 'no place for session logs: set DJINN_HOME or HOME');
  try {
    const names = readdirSync(dir).filter((name) => name.endsWith('.jsonl'));
    return names.map((name) => name.slice(0, -'.jsonl'.length)).filter((id) => SESSION_ID.test(id));
  } catch (error) {
    const { code, message } = error as NodeJS.ErrnoException;
    if (code === 'ENOENT') return [];
    throw new StoreError('storage', message);
  }
}

const time = (ts: string): string =>
  ts
    .replace('T', ' ')
    .replace(/\.\d+Z$/, '')
    .padEnd(19);

function listLine({ last, state, code, requests, tokens, sessionId, prompt, message }: Listed): string {
  const how = (code ?? state).padEnd(STATE_WIDTH);
  const counts = `${String(requests).padStart(5)} ${String(tokens).padStart(9)}`;
  return `${time(last)}  ${how} ${counts}  ${sessionId}  ${plain(message ?? prompt).slice(0, TEXT_LENGTH)}\n`;
}

async function list(json: boolean, ports: CommandPorts): Promise<number> {
  const found = sessionIds(ports.dir).map((id) => describe(ports.dir as string, id));
  found.sort((a, b) => (a.last < b.last ? 1 : a.last > b.last ? -1 : a.sessionId < b.sessionId ? -1 : 1));
  if (!json && found.length === 0) ports.say(`no sessions in ${ports.dir}`);
  if (!json && found.length > 0) {
    await ports.out(
      `${'LAST (UTC)'.padEnd(19)}  ${'STATE'.padEnd(STATE_WIDTH)}  REQS    TOKENS  SESSION  PROMPT\n`,
    );
  }
  for (const one of found) await ports.out(json ? jsonLine(one) : listLine(one));
  return 0;
}

async function show(path: string, json: boolean, ports: CommandPorts): Promise<number> {
  const { all, damage } = readWholeLog(path);
  for (const { seq, ts, type, text, whole } of stepsOf(all, json ? 1000 : TEXT_LENGTH)) {
    const line = `${String(seq).padStart(6)}${whole ? '*' : ' '} ${time(ts)}  ${type.padEnd(12)}  ${plain(text)}\n`;
    await ports.out(json ? jsonLine({ seq, ts, type, text, whole }) : line);
  }
  return sayDamage(path, damage, ports);
}

async function exportLog(path: string, ports: CommandPorts): Promise<number> {
  const { lines, damage } = readWholeLog(path);
  for (const line of lines) await ports.out(`${line.toString('utf8')}\n`);
  return sayDamage(path, damage, ports);
}

function sayDamage(
  path: string,
  damage: readonly { offset: number; bytes: number; reason: string }[],
  ports: CommandPorts,
): number {
  for (const { offset, bytes, reason } of damage) {
    ports.say(`${path}: ${bytes} bytes at byte ${offset} are left out: ${reason}`);
  }
  return damage.length === 0 ? 0 : 1;
}

export async function run(words: readonly string[], ports: CommandPorts): Promise<number> {
  const { values, positionals } = readWords(words, OPTIONS);
  const [verb = 'list', ...names] = positionals;
  const json = values.json ?? false;
  if (verb === 'list') {
    if (names.length > 0)
      throw new UsageError(`list takes no names; to see one: djinn sessions show ${names[0]}`);
    return list(json, ports);
  }
  if (verb !== 'show' && verb !== 'export') {
    throw new UsageError(`${JSON.stringify(verb)} is none of list, show and export`);
  }
  const { path } = oneSession(names, ports.dir);
  return verb === 'show' ? show(path, json, ports) : exportLog(path, ports);
}
