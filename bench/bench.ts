// What every part works with, made once: a throw-away djinnd of its own, one tenant per engine, and the fake model.
// Leaves nothing behind but the users djinnd and djinnd-pg, which any installation has.
import { execFileSync } from 'node:child_process';
import { randomBytes } from 'node:crypto';
import { mkdtempSync, readFileSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import type { EnforcementReport } from '../daemon/spawner/wire.ts';
import { startDaemon, type TestDaemon } from '../test/support/daemon.ts';
import { contentChunk, startFakeOpenAI } from '../worker/index.ts';
import type { Engine } from './bare.ts';
import { type Caller, createCaller } from './over-http.ts';

export interface Bench {
  /** Fewer rounds, for slow machines. */
  quick: boolean;
  daemon: TestDaemon;
  caller: Caller;
  keys: Record<Engine, string>;
  tenants: Record<Engine, string>;
  modelUrl: string;
  /** An empty directory for programs that are started bare. */
  scratch: string;
  enforcement: EnforcementReport;
  close(): Promise<void>;
}

const LIMITS = [
  ...['--max-running', '64', '--max-queued', '1000', '--pids', '512', '--wall-ms', '600000'],
  ...['--output-bytes', '4G'],
];

export async function openBench(quick: boolean): Promise<Bench> {
  const model = await startFakeOpenAI(() => ({ sse: [contentChunk('ok')] }));
  const id = randomBytes(4).toString('hex');
  const scratch = mkdtempSync(join(tmpdir(), 'djinnd-bench-'));
  const daemon = await startDaemon({
    instance: `bench-${id}`,
    env: {
      ...{ DJINN_API_BASE: model.baseUrl, DJINN_MODEL: 'bench', DJINN_API_KEY: 'sk-bench' },
      ...{ DJINND_LOG_LEVEL: process.env.BENCH_LOG_LEVEL ?? 'warn', DJINND_MAX_RUNNING: '64' },
    },
  });
  const caller = createCaller(daemon.url);
  const tenants = { scripted: `bench-${id}-scripted`, djinn: `bench-${id}-djinn` };

  async function close(): Promise<void> {
    caller.close();
    const code = await daemon.close();
    await model.stop();
    rmSync(scratch, { recursive: true, force: true });
    removeUsers(daemon.stateDir, Object.values(tenants));
    for (const dir of [daemon.stateDir, daemon.runDir, daemon.jobsRunDir])
      rmSync(dir, { recursive: true, force: true });
    if (code !== 0) throw new Error(`djinnd start ended with ${code}`);
  }

  try {
    const keys = {
      scripted: await daemon.tenant(tenants.scripted, '--engine', 'scripted', ...LIMITS),
      djinn: await daemon.tenant(tenants.djinn, '--engine', 'djinn', ...LIMITS),
    };
    const ready = (await (await fetch(`${daemon.url}/readyz`)).json()) as { enforcement: EnforcementReport };
    // The first job of a tenant makes its system user.
    for (const key of Object.values(keys)) await caller.run(key, { prompt: 'hello' });
    const { enforcement } = ready;
    return { quick, daemon, caller, keys, tenants, modelUrl: model.baseUrl, scratch, enforcement, close };
  } catch (error) {
    await close();
    throw error;
  }
}

/** The tenants' names are of this run alone, so their users are too. */
function removeUsers(stateDir: string, tenants: string[]): void {
  if (process.getuid?.() !== 0) return;
  const { tenants: uids } = JSON.parse(readFileSync(join(stateDir, 'uids.json'), 'utf8')) as {
    tenants: Record<string, number>;
  };
  for (const tenant of tenants) {
    if (uids[tenant] !== undefined) execFileSync('userdel', [`djt${uids[tenant]}`], { stdio: 'ignore' });
  }
}
