// `djinn rerun`: a recorded session run again with its own recorded answers, from the start or from a fork, with faults
// put in where asked for.
import { existsSync } from 'node:fs';
import { join } from 'node:path';
import { UsageError } from '../arguments.ts';
import { type Fault, parseFault } from '../replay/faults.ts';
import { rerunSession } from '../replay/rerun.ts';
import { readWholeLog } from '../session/log-file.ts';
import { newSessionId } from '../session/new-id.ts';
import { SESSION_ID, StoreError } from '../session/store.ts';
import { type CommandPorts, jsonLine, oneSession, readNumber, readWords } from './ports.ts';

export const usage = `djinn rerun SESSION [options]

Runs a recorded session again, all its runs in order: the real loop with the recorded answers of the models, by the clock
of the record, without waiting and without a network. Tool calls get their recorded results; nothing is executed. Each
request must be the recorded one, byte for byte (replay_differs). Prints the events and writes a session of its own. A run
whose process died ends with replay_end where the record of its answers ends.

      --session-id NEW    id of the session that is written; must not exist; default: made up
      --at SEQ            begin after record SEQ, with a fork up to it
      --fault N=WHAT      request N (from 1, counted where the replay begins) fails first: 429 or another status, cut (in
                          the middle of the answer), reset, stall, empty. Its recorded answer is what a repetition gets
      --answer N=TEXT     request N is answered by TEXT instead. After a fault or an answer, requests may differ from the
                          record, and recorded answers are given in their order
      --real-tools        run the tool calls, in --cwd, with the tools of this version
      --cwd DIR           working directory; default: this one
  -h, --help              this text

Exit codes: 0 every run ended as recorded or done, 1 another end, no such session or NEW exists, 2 wrong usage.
`;

const OPTIONS = {
  'session-id': { type: 'string' },
  at: { type: 'string' },
  fault: { type: 'string', multiple: true },
  answer: { type: 'string', multiple: true },
  'real-tools': { type: 'boolean' },
  cwd: { type: 'string' },
} as const;

function splitNumbered(word: string, option: string): [number, string] {
  const at = word.indexOf('=');
  if (at === -1) throw new UsageError(`${option} must be N=…, not ${word}`);
  return [readNumber(word.slice(0, at), option, 1), word.slice(at + 1)];
}

function readFaults(faults: readonly string[], answers: readonly string[]): Map<number, Fault> {
  const found = new Map<number, Fault>();
  const add = (number: number, fault: Fault): void => {
    if (found.has(number)) throw new UsageError(`request ${number} is to fail in two ways`);
    found.set(number, fault);
  };
  for (const word of faults) {
    const [number, text] = splitNumbered(word, '--fault');
    const fault = parseFault(text);
    if (fault === null) throw new UsageError(`--fault ${word}: none of 4xx, 5xx, cut, reset, stall, empty`);
    add(number, fault);
  }
  for (const word of answers) {
    const [number, answer] = splitNumbered(word, '--answer');
    if (answer.trim() === '') throw new UsageError(`--answer ${word}: the answer is empty`);
    add(number, { answer });
  }
  return found;
}

export async function run(words: readonly string[], ports: CommandPorts): Promise<number> {
  const { values, positionals } = readWords(words, OPTIONS);
  const sessionId = values['session-id'] ?? newSessionId();
  if (!SESSION_ID.test(sessionId))
    throw new UsageError('--session-id must be 1 to 64 letters, digits, "_" or "-"');
  const faults = readFaults(values.fault ?? [], values.answer ?? []);
  const at = values.at === undefined ? 0 : readNumber(values.at, '--at', 1);
  const { path, id } = oneSession(positionals, ports.dir);
  if (ports.dir === null)
    throw new StoreError('storage', 'no place for session logs: set DJINN_HOME or HOME');
  const log = readWholeLog(path);
  if (existsSync(join(ports.dir, `${sessionId}.jsonl`)))
    throw new StoreError('storage', `there is a session ${sessionId} already`);
  let exitCode = 0;
  for await (const event of rerunSession(log, {
    from: id,
    dir: ports.dir,
    sessionId,
    at,
    faults,
    signal: ports.signal,
    realTools: values['real-tools'] ?? false,
    ...(values.cwd === undefined ? {} : { cwd: values.cwd }),
  })) {
    if (!('ended' in event)) await ports.out(jsonLine(event));
    else if (event.ended.now !== event.ended.recorded && event.ended.now !== 'done') exitCode = 1;
  }
  return exitCode;
}
