// Starts the built worker as a real process and collects what it writes. Builds it first when a source is newer.
import { type ChildProcess, execFileSync, spawn } from 'node:child_process';
import { mkdtempSync, readdirSync, readFileSync, rmSync, statSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import type { TestContext } from 'node:test';
import { fileURLToPath } from 'node:url';
import { parseEvent, type WorkerEvent } from '../../worker/protocol.ts';

const root = fileURLToPath(new URL('../../', import.meta.url));
/** `WORKER_NODE` runs the worker on another Node, down to 18.17. */
const workerNode = process.env.WORKER_NODE ?? process.execPath;
export const bundle = join(root, 'worker/dist/djinn.cjs');

function newestSource(dir: string): number {
  let newest = 0;
  for (const entry of readdirSync(dir, { withFileTypes: true })) {
    const path = join(dir, entry.name);
    if (entry.isDirectory()) newest = entry.name === 'dist' ? newest : Math.max(newest, newestSource(path));
    else if (entry.name.endsWith('.ts')) newest = Math.max(newest, statSync(path).mtimeMs);
  }
  return newest;
}

/** Makes sure that the bundle is the one of the sources. */
export function buildBundle(): void {
  const built = statSync(bundle, { throwIfNoEntry: false })?.mtimeMs ?? 0;
  if (built < newestSource(join(root, 'worker'))) {
    execFileSync(process.execPath, [join(root, 'scripts/build-worker.mjs')], {
      stdio: ['ignore', 'ignore', 'inherit'],
    });
  }
}

/** A folder that is gone after the test. */
export function makeFolder(t: TestContext): string {
  const dir = mkdtempSync(join(tmpdir(), 'djinn-worker-'));
  t.after(() => rmSync(dir, { recursive: true, force: true }));
  return dir;
}

export interface WorkerOptions {
  baseUrl?: string;
  env?: Record<string, string>;
  cwd?: string;
  home: string;
  node?: string;
  stdio?: ('pipe' | 'ignore' | number)[];
}

export interface WorkerProcess {
  child: ChildProcess;
  stdout: () => string;
  stderr: () => string;
  /** Resolves with the first stdout line that the test accepts, and rejects when the process ends before. */
  seen(accept: (event: WorkerEvent) => boolean): Promise<WorkerEvent>;
  ended: Promise<WorkerEnd>;
}

export interface WorkerEnd {
  code: number | null;
  signal: string | null;
  events: WorkerEvent[];
  stdout: string;
  stderr: string;
}

/** Every line must be an event of the protocol; throws otherwise. */
export function parseEvents(stdout: string): WorkerEvent[] {
  if (stdout !== '' && !stdout.endsWith('\n'))
    throw new Error(`the last line is not whole: ${stdout.slice(-200)}`);
  return stdout
    .split('\n')
    .slice(0, -1)
    .map((line) => {
      const parsed = parseEvent(line);
      if (!parsed.ok) throw new Error(`${parsed.reason}: ${line.slice(0, 200)}`);
      return parsed.event;
    });
}

export function startWorker(t: TestContext, args: string[], options: WorkerOptions): WorkerProcess {
  buildBundle();
  const child = spawn(options.node ?? workerNode, [bundle, ...args], {
    cwd: options.cwd ?? options.home,
    env: {
      PATH: process.env.PATH,
      DJINN_HOME: options.home,
      DJINN_API_KEY: 'sk-test-canary-key',
      ...(options.baseUrl === undefined ? {} : { DJINN_API_BASE: options.baseUrl }),
      ...options.env,
    },
    stdio: options.stdio ?? ['ignore', 'pipe', 'pipe'],
  });
  const out: Buffer[] = [];
  const err: Buffer[] = [];
  const stdout = (): string => Buffer.concat(out).toString('utf8');
  const watchers = new Set<() => void>();
  child.stdout?.on('data', (bytes: Buffer) => {
    out.push(bytes);
    for (const watch of watchers) watch();
  });
  child.stderr?.on('data', (bytes: Buffer) => err.push(bytes));
  const stderr = (): string => Buffer.concat(err).toString('utf8');
  const ended = new Promise<WorkerEnd>((resolve) => {
    child.on('close', (code, signal) => {
      const text = stdout();
      resolve({
        code,
        signal,
        events: signal === 'SIGKILL' ? [] : parseEvents(text),
        stdout: text,
        stderr: stderr(),
      });
    });
  });
  t.after(() => child.kill('SIGKILL'));
  return {
    child,
    stdout,
    stderr,
    ended,
    seen: (accept) =>
      new Promise((resolve, reject) => {
        const watch = (): void => {
          const whole = stdout().slice(0, stdout().lastIndexOf('\n') + 1);
          const found = parseEvents(whole).find(accept);
          if (found === undefined) return;
          watchers.delete(watch);
          resolve(found);
        };
        watchers.add(watch);
        child.on('close', () => reject(new Error(`ended before: ${stdout()} ${stderr()}`)));
        watch();
      }),
  };
}

export const runWorker = (t: TestContext, args: string[], options: WorkerOptions): Promise<WorkerEnd> =>
  startWorker(t, args, options).ended;

/** The text that a reader has who honours `fallback` with `discard`. */
export function readerText(events: WorkerEvent[]): string {
  let text = '';
  let kept = '';
  for (const event of events) {
    if (event.type === 'token' && event.reasoning !== true) text += event.text;
    if (event.type === 'fallback' && event.discard) text = '';
    if (event.type === 'tool_call') {
      kept += text;
      text = '';
    }
  }
  return kept + text;
}

/** Exactly one terminal event, and it is the last. */
export function terminal(events: WorkerEvent[]): WorkerEvent {
  const ends = events.filter((event) => event.type === 'done' || event.type === 'error');
  const last = events.at(-1);
  if (ends.length !== 1 || last !== ends[0] || last === undefined) {
    throw new Error(`not exactly one terminal event at the end: ${JSON.stringify(events)}`);
  }
  return last;
}

export interface LogLine {
  seq: number;
  type: string;
  // biome-ignore lint/suspicious/noExplicitAny: tests look into data of any record.
  data: any;
}

/** The records of a session log. */
export function readSession(home: string, sessionId: string): LogLine[] {
  const text = readFileSync(join(home, 'sessions', `${sessionId}.jsonl`), 'utf8');
  return text
    .split('\n')
    .filter((line) => line !== '')
    .map((line) => JSON.parse(line) as LogLine);
}
