// One session under either provider of its log: a file of the worker's own, or a supervisor's descriptors 3 and 4.
import { existsSync, mkdirSync, readFileSync } from 'node:fs';
import { join } from 'node:path';
import type { Duplex } from 'node:stream';
import { type TestContext, test } from 'node:test';
import type { FakeOpenAI, Job, Script } from '../../worker/index.ts';
import { createRecordKeeper } from './record-keeper.ts';
import { startFake } from './scripted-run.ts';
import { makeFolder, startWorker, type WorkerEnd, type WorkerProcess } from './worker-process.ts';

export type Provider = 'file' | 'fd';
export const PROVIDERS: readonly Provider[] = ['file', 'fd'];

export interface StartOptions {
  /** Absent: finish what the last run left. */
  prompt?: string;
  redo?: 'auto' | 'always' | 'never';
  cwd?: string;
  env?: Record<string, string>;
}

export interface Scene {
  provider: Provider;
  home: string;
  fake: FakeOpenAI;
  /** The log of the session. */
  log: string;
  start(options?: StartOptions): WorkerProcess;
  run(options?: StartOptions): Promise<WorkerEnd>;
}

/** Starts processes on session `s`, each with the same home. */
export async function setScene(
  t: TestContext,
  provider: Provider,
  script: Script,
  { home = makeFolder(t) }: { home?: string } = {},
): Promise<Scene> {
  const fake = await startFake(t, script);
  const folder = join(home, 'sessions');
  mkdirSync(folder, { recursive: true, mode: 0o700 });
  const log = join(folder, 's.jsonl');
  const start =
    provider === 'file' ? startOnFile(t, home, fake.baseUrl) : startOnDescriptors(t, home, fake.baseUrl, log);
  return { provider, home, fake, log, start, run: (options) => start(options).ended };
}

function startOnFile(t: TestContext, home: string, baseUrl: string): Scene['start'] {
  return ({ prompt, redo, cwd = home, env = {} } = {}) => {
    const words = ['--session-id', 's'];
    if (prompt !== undefined) words.push('-p', prompt);
    if (redo !== undefined) words.push('--redo', redo);
    return startWorker(t, words, { home, baseUrl, cwd, env });
  };
}

/** A job per prompt; one without a prompt is a further attempt of the last one. */
function startOnDescriptors(t: TestContext, home: string, baseUrl: string, log: string): Scene['start'] {
  const keeper = createRecordKeeper(log);
  let jobs = 0;
  let attempt = 1;
  let last = 'none';
  return ({ prompt, redo, cwd = home, env = {} } = {}) => {
    jobs += prompt === undefined ? 0 : 1;
    attempt = prompt === undefined ? attempt + 1 : 1;
    last = prompt ?? last;
    const fd = keeper.open();
    const worker = startWorker(t, ['--job', '-'], {
      home,
      env: { DJINN_API_KEY: '', DJINN_HOME: '/does/not/exist', ...env },
      stdio: ['pipe', 'pipe', 'pipe', 'pipe', fd],
    });
    keeper.close(fd);
    keeper.attach(worker.child.stdio[3] as Duplex);
    const job: Job = {
      v: 1,
      jobId: `job_${jobs}`,
      attempt,
      sessionId: 's',
      engine: 'djinn',
      prompt: last,
      models: [{ id: 'deepseek-chat', baseUrl }],
      cwd,
      session: { provider: 'fd' },
      resumed: existsSync(log) && readFileSync(log).length > 0,
      workspace: 'existing',
      ...(redo === undefined ? {} : { redo }),
    };
    worker.child.stdin?.on('error', () => {});
    worker.child.stdin?.write(`${JSON.stringify(job)}\n`);
    return worker;
  };
}

/** The same test for each provider. */
export function testBoth(name: string, body: (t: TestContext, provider: Provider) => Promise<void>): void {
  for (const provider of PROVIDERS) test(`${provider}: ${name}`, (t) => body(t, provider));
}
