// The same programs with the same job line, started bare: no sandbox, no daemon, no database. What they cost anyway.
import { spawn } from 'node:child_process';
import { closeSync, openSync } from 'node:fs';
import { join } from 'node:path';
import type { Duplex } from 'node:stream';
import type { Job } from '../worker/protocol.ts';

export interface BareRun {
  /** Milliseconds since the program was started: its first line, and its end. */
  firstMs: number;
  wholeMs: number;
  bytes: number;
}

export type Engine = 'scripted' | 'djinn';

const root = join(import.meta.dirname, '..');
const COMMANDS: Record<Engine, string[]> = {
  scripted: [join(root, 'engines/scripted.cjs')],
  djinn: [join(root, 'worker/dist/djinn.cjs'), '--job', '-'],
};

/** What the spawner would write to stdin, but for the model's address. */
export function bareJob(engine: Engine, prompt: string, modelUrl: string, cwd: string): Job {
  return {
    ...{ v: 1, jobId: 'job_bare', attempt: 1, sessionId: 'bare', engine, prompt, cwd },
    models: [{ id: 'bench', baseUrl: modelUrl }],
    session: { provider: 'fd' },
    resumed: false,
    workspace: 'new',
  };
}

/** Starts the program with the descriptors that the spawner gives it and reads it to its end. Throws unless it ends with 0. */
export function runBare(engine: Engine, job: Job): Promise<BareRun> {
  const line = `${JSON.stringify(job)}\n`;
  const session = openSync('/dev/null', 'r');
  const beganMs = performance.now();
  const child = spawn(process.execPath, COMMANDS[engine], {
    stdio: ['pipe', 'pipe', 'inherit', 'pipe', session],
    // In a session of its own, as in the sandbox: a busy scheduler divides the machine by sessions.
    detached: true,
    cwd: job.cwd,
    env: { PATH: '/usr/bin:/bin', HOME: job.cwd, LANG: 'C.UTF-8', TERM: 'dumb' },
  });
  closeSync(session);
  let firstMs = Number.NaN;
  let bytes = 0;
  child.stdin?.end(line);
  child.stdout?.on('data', (chunk: Buffer) => {
    if (bytes === 0) firstMs = performance.now() - beganMs;
    bytes += chunk.length;
  });
  acknowledge(child.stdio[3] as Duplex);
  return new Promise((resolve, reject) => {
    child.once('error', reject);
    child.once('close', (code) => {
      if (code !== 0) reject(new Error(`${engine} ended with ${code}`));
      else resolve({ firstMs, wholeMs: performance.now() - beganMs, bytes });
    });
  });
}

/** Session records are answered at once and kept nowhere. */
function acknowledge(records: Duplex): void {
  let held = '';
  records.setEncoding('utf8');
  records.on('error', () => {}); // it ended with an answer on the way
  records.on('data', (text: string) => {
    const frames = (held + text).split('\n');
    held = frames.pop() ?? '';
    for (const frame of frames) {
      const seq = frame.startsWith('!') ? (JSON.parse(frame.slice(1)) as { seq: number }).seq : null;
      if (seq !== null) records.write(`{"ack":${seq}}\n`);
    }
  });
}
