// The two halves of a search for secrets: the command that looks from inside a sandbox, and what can be read of a running
// instance from outside.
import { closeSync, openSync, readdirSync, readFileSync, readSync, statSync } from 'node:fs';
import { join } from 'node:path';
import { ECHO_PROMPTS } from '../support/echoing-model.ts';
import { disguise, findIn, type Hit, type Secret } from '../support/secrets.ts';
import { timeScale } from '../vm/guest.ts';

const program = readFileSync(join(import.meta.dirname, '../support/search-inside.cjs'), 'utf8');

/** What the search looked at; a search that reached nothing proves nothing. */
export type Reached = Record<
  'processes' | 'environs' | 'descriptors' | 'memories' | 'files' | 'sockets' | 'replies',
  number
>;
export interface Report {
  hits: Hit[];
  reached: Reached;
}

export interface SearchOptions {
  secrets: readonly Secret[];
  /** Nothing that is looked for is older, in milliseconds since the epoch. */
  since: number;
  /** Also looks through the machine's programs and libraries. */
  system: boolean;
}

/** Places in which `plantAndSearch` puts its word, as the search names them. */
export const PLANTED_PLACES = [
  'file /workspace/planted',
  'file /workspace/encoded',
  'file /tmp/planted',
  'file /dev/shm/planted',
  'file /home/agent/planted',
  'file name',
  'link',
  'environ',
  'cmdline',
  'descriptor',
  'memory',
  'abstract socket',
  'socket name',
  'path socket',
  'gateway reply',
];

/** A bash script that leaves the word in each of PLANTED_PLACES and then searches with the descriptors it was given. */
export function plantAndSearch(planted: Secret, options: SearchOptions): string {
  const { secrets, since, system } = options;
  const settings = {
    ...{ needles: disguise(secrets), since, system, model: 'echo', waitMs: 200 * timeScale },
    prompts: ['planted', 'reset', ...ECHO_PROMPTS],
  };
  const { value } = planted;
  const encoded = Buffer.from(`key=${value}.`).toString('base64');
  const listener = `const [word] = process.argv.slice(1);
const listen = (at, then) => require("node:net").createServer((s) => s.end(word)).listen(at, then);
listen("\\0" + word, () => listen("/tmp/planted.sock"));`;
  return `
word='${value}'
for place in /workspace /tmp /dev/shm ~; do printf %s "$word" >$place/planted; done
printf '%s %s' '${encoded}' '${encodeURIComponent(value)}' >/workspace/encoded
: >'/tmp/${encodeURIComponent(value)}'; ln -sf "$word" /tmp/link
{
  PLANTED="$word" sleep 3000 & bash -c 'exec -a "$0" sleep 3000' "$word" &
  exec 9<>/tmp/held; printf %s "$word" >&9; rm /tmp/held; sleep 3000 & exec 9>&-
  (sh -c 'read -r held; exec 0</dev/null; sleep 3000; : "$held"' </workspace/planted) &
  /opt/djinn/node -e '${listener}' "$word" &
} >/dev/null 2>&1
until [ -S /tmp/planted.sock ]; do sleep 0.05; done
exec /opt/djinn/node - ${Buffer.from(JSON.stringify(settings)).toString('base64')} <<'PROGRAM'
${program}
PROGRAM
`;
}

/** The report in a tool's result. */
export function reportOf(result: string): Report {
  const line = result.split('\n').find((one) => one.startsWith('{"hits":'));
  if (line === undefined) throw new Error(`the search gave no report: ${result.slice(-2000)}`);
  return JSON.parse(line) as Report;
}

/** Every plain file below a directory, as root reads it. */
export function filesBelow(dir: string, leaveOut: readonly string[] = []): { path: string; bytes: Buffer }[] {
  return readdirSync(dir, { withFileTypes: true }).flatMap((entry) => {
    const path = join(dir, entry.name);
    if (leaveOut.includes(path)) return [];
    if (entry.isDirectory()) return filesBelow(path, leaveOut);
    return entry.isFile() ? [{ path, bytes: readFileSync(path) }] : [];
  });
}

const BLOCK_BYTES = 4 * 1024 * 1024;
const OVERLAP_BYTES = 1024;

/** Secrets, as they are, in the environment, command line and writable memory of a process, as root reads them. */
export function findInProcess(pid: number, secrets: readonly Secret[]): Hit[] {
  const hits = ['environ', 'cmdline'].flatMap((name) =>
    findIn(readFileSync(`/proc/${pid}/${name}`), secrets, `${name} of ${pid}`),
  );
  const memory = openSync(`/proc/${pid}/mem`, 'r');
  const block = Buffer.alloc(BLOCK_BYTES);
  for (const line of readFileSync(`/proc/${pid}/maps`, 'utf8').split('\n')) {
    const [from = Number.NaN, to = 0] = (/^(\S+)-(\S+) rw/.exec(line) ?? [])
      .slice(1)
      .map((hex) => Number.parseInt(hex, 16));
    for (let at = from; at < to; at += BLOCK_BYTES - OVERLAP_BYTES) {
      const bytes = readOrNothing(memory, block, at, Math.min(BLOCK_BYTES, to - at));
      const seen = block.subarray(0, bytes);
      const found = secrets.filter(({ value }) => seen.includes(value));
      hits.push(...found.map(({ name }) => ({ name, form: 'plain', place: `memory of ${pid}` })));
    }
  }
  closeSync(memory);
  return hits;
}

/** Memory is given back while it is read. */
function readOrNothing(fd: number, block: Buffer, at: number, bytes: number): number {
  try {
    return readSync(fd, block, 0, bytes, at);
  } catch {
    return 0;
  }
}

/** Command lines of every process of this machine that is not in `except`. */
export function commandLines(except: readonly number[]): Buffer {
  const pids = readdirSync('/proc').filter((name) => /^\d+$/.test(name) && !except.includes(Number(name)));
  return Buffer.concat(pids.map((pid) => read(`/proc/${pid}/cmdline`)));
}

/** Uids of processes whose command line holds a word. */
export function uidsOf(word: string): number[] {
  const pids = readdirSync('/proc').filter((name) => /^\d+$/.test(name));
  return pids
    .filter((pid) => read(`/proc/${pid}/cmdline`).includes(word))
    .map((pid) => statSync(`/proc/${pid}`, { throwIfNoEntry: false })?.uid ?? -1);
}

function read(path: string): Buffer {
  try {
    return readFileSync(path);
  } catch {
    return Buffer.alloc(0); // the process ended
  }
}
