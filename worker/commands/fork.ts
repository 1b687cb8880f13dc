// `djinn fork`: a new session from the records of another one up to a number.
import { UsageError } from '../arguments.ts';
import { forkSession } from '../session/fork.ts';
import { readWholeLog } from '../session/log-file.ts';
import { newSessionId } from '../session/new-id.ts';
import { SESSION_ID, StoreError } from '../session/store.ts';
import { type CommandPorts, jsonLine, oneSession, readNumber, readWords } from './ports.ts';

export const usage = `djinn fork SESSION --at SEQ [--session-id NEW]

Makes a new session from the records of SESSION up to number SEQ, byte for byte, and prints its id as JSON. Go on in it
with: djinn -p PROMPT --session-id NEW. SESSION itself stays as it is. SESSION is an id in DJINN_HOME or the path of a log;
\`djinn sessions show SESSION\` shows the numbers.

A call is never split from its result: calls that have none up to SEQ get one in the new session that says that they were
interrupted; nothing of them is run again.

      --at SEQ            the last record that is taken
      --session-id NEW    id of the new session, [A-Za-z0-9_-]{1,64}; must not exist; default: made up
  -h, --help              this text

Exit codes: 0 done, 1 no such session or record, or NEW exists, 2 wrong usage.
`;

const OPTIONS = { at: { type: 'string' }, 'session-id': { type: 'string' } } as const;

export async function run(words: readonly string[], ports: CommandPorts): Promise<number> {
  const { values, positionals } = readWords(words, OPTIONS);
  if (values.at === undefined) throw new UsageError('--at SEQ is missing: the last record that is taken');
  const at = readNumber(values.at, '--at', 1);
  const sessionId = values['session-id'] ?? newSessionId();
  if (!SESSION_ID.test(sessionId))
    throw new UsageError('--session-id must be 1 to 64 letters, digits, "_" or "-"');
  const { path, id } = oneSession(positionals, ports.dir);
  if (ports.dir === null)
    throw new StoreError('storage', 'no place for session logs: set DJINN_HOME or HOME');
  const log = readWholeLog(path);
  for (const { offset, reason } of log.damage) {
    ports.say(`${path}: the line at byte ${offset} is left out: ${reason}`);
  }
  const { interrupted, ...fork } = forkSession(log, { from: id, at, dir: ports.dir, sessionId });
  if (interrupted > 0) {
    ports.say(`${interrupted} call${interrupted === 1 ? '' : 's'} without a result: answered as interrupted`);
  }
  await ports.out(jsonLine({ sessionId, from: id, at, interrupted, ...fork }));
  return 0;
}
