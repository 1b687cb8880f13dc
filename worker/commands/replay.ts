// `djinn replay`: the events of a recorded session again, or a check of its record. Offline; changes nothing.
import { UsageError } from '../arguments.ts';
import { liveModels } from '../model-source.ts';
import { replayEvents } from '../replay/events.ts';
import { type Verification, verifyLog } from '../replay/verify.ts';
import { readWholeLog, withLog } from '../session/log-file.ts';
import { type CommandPorts, jsonLine, oneSession, readWords } from './ports.ts';

export const usage = `djinn replay SESSION [--speed N] [--verify]

Prints the events of a recorded session, of all its runs, as NDJSON. Each carries the number and the time of its record
(record, at); the session event carries the prompt. Answers are recorded whole: a text is one token event. A run whose
record has no end ends with error {code: "no_end"}. SESSION is an id in DJINN_HOME or the path of a log. No network.

      --speed N    1: at the real pace, 2: twice as fast, 0.5: at half of it; pauses between runs are left out.
                   0, the default: at once
      --verify     print no events but check the record: each line's checksum and number, and each request, which is
                   made again from the records before it and must have the logged SHA-256. Prints one JSON line
                   {records, requests, verified, unverified, problems}; exits 1 when there is any problem. unverified:
                   requests that another version wrote in a way that this one cannot make again
  -h, --help       this text

Exit codes: 0 done, 1 no such session or a problem found, 2 wrong usage.
`;

/** Longest time that one timer can wait. */
const MAX_WAIT_MS = 2 ** 31 - 1;

const OPTIONS = { verify: { type: 'boolean' }, speed: { type: 'string' } } as const;

function readSpeed(text: string): number {
  if (!/^\d{1,9}(\.\d{1,9})?$/.test(text))
    throw new UsageError(`--speed must be a number from 0, not ${text}`);
  return Number(text);
}

function sayVerdict(
  { records, requests, verified, unverified, problems }: Verification,
  path: string,
): string {
  const unknown = unverified.length === 0 ? '' : `, ${unverified.length} of another version not verifiable`;
  const counts = `${records} records, ${verified} of ${requests} requests verified${unknown}`;
  const lines = problems.map((one) => `${path}: ${one.message}`);
  const last =
    problems.length === 0 ? 'no problem' : `${problems.length} problem${problems.length === 1 ? '' : 's'}`;
  return [...lines, `${path}: ${counts}, ${last}`].join('\n');
}

async function verify(path: string, ports: CommandPorts): Promise<number> {
  const result = withLog(path, verifyLog);
  await ports.out(jsonLine({ path, ...result }));
  ports.say(sayVerdict(result, path));
  return result.problems.length === 0 ? 0 : 1;
}

async function play(path: string, speed: number, ports: CommandPorts): Promise<number> {
  const log = readWholeLog(path);
  for (const { offset, reason } of log.damage) {
    ports.say(`${path}: the line at byte ${offset} is left out: ${reason}`);
  }
  let before: number | null = null;
  for (const event of replayEvents(log.all)) {
    const at = Date.parse(event.at);
    const gapMs = before === null || event.type === 'session' ? 0 : at - before;
    before = at;
    if (speed > 0 && gapMs > 0) await liveModels.sleep(Math.min(gapMs / speed, MAX_WAIT_MS), ports.signal);
    if (ports.signal.aborted) return 1;
    await ports.out(jsonLine(event));
  }
  return 0;
}

export async function run(words: readonly string[], ports: CommandPorts): Promise<number> {
  const { values, positionals } = readWords(words, OPTIONS);
  const speed = readSpeed(values.speed ?? '0');
  const { path } = oneSession(positionals, ports.dir);
  return values.verify ? verify(path, ports) : play(path, speed, ports);
}
