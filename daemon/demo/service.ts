// The throw-away service of the demo: `djinnd start` as a child with an instance and ports of its own.
import { type ChildProcess, spawn } from 'node:child_process';
import { createServer } from 'node:net';
import { join } from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';
import { type Config, type Env, loadConfig } from '../config.ts';
import { isLocked } from '../parent/lock.ts';
import type { EnforcementReport } from '../spawner/wire.ts';

const READY_TIMEOUT_MS = 600_000;
const MAX_INSTANCES = 20;

export interface Service {
  config: Config;
  url: string;
  enforcement: EnforcementReport;
  /** Resolves when the service ends by itself. */
  ended: Promise<string>;
  /** Stops it in order; resolves with its exit code. */
  close(): Promise<number | null>;
}

/** The environment of a free instance: another demo or an installed service is never touched. */
export async function demoEnv(env: Env): Promise<Env> {
  const [http, metrics] = await freePorts();
  const defaults = {
    DJINND_ENFORCEMENT: 'best-effort',
    DJINND_LOG_LEVEL: 'error', // what is not enforced, the demo says itself
    DJINND_LISTEN: `127.0.0.1:${http}`,
    DJINND_METRICS_LISTEN: `127.0.0.1:${metrics}`,
  };
  const chosen = {
    ...defaults,
    ...Object.fromEntries(Object.entries(env).filter(([, value]) => value !== undefined && value !== '')),
  };
  if (env.DJINND_INSTANCE !== undefined) return chosen;
  for (let number = 1; number <= MAX_INSTANCES; number++) {
    const candidate = { ...chosen, DJINND_INSTANCE: number === 1 ? 'demo' : `demo-${number}` };
    const { stateDir, runDir } = loadConfig(candidate);
    if (!isLocked(stateDir) && !isLocked(runDir)) return candidate;
  }
  throw new Error(`${MAX_INSTANCES} demos run on this machine already: stop one`);
}

/** Starts the service and waits until it takes jobs. Throws with the reasons when it does not. */
export async function startService(env: Env, signal: AbortSignal): Promise<Service> {
  const config = loadConfig(env);
  const main = join(import.meta.dirname, '../main.ts');
  // In a session of its own: a terminal's INT reaches the demo alone, which stops things in order.
  const child = spawn('setpriv', ['--pdeathsig=TERM', '--', process.execPath, main, 'start'], {
    env: env as NodeJS.ProcessEnv,
    detached: true,
    stdio: ['ignore', 2, 2],
  });
  const exited = new Promise<number | null>((resolve, reject) => {
    child.once('exit', resolve);
    child.once('error', reject);
  });
  const close = () => {
    child.kill('SIGTERM');
    return exited;
  };
  const url = `http://${config.listen.host}:${config.listen.port}`;
  try {
    const enforcement = await untilReady(url, child, signal);
    const ended = exited.then((code) => `djinnd start ended by itself (exit code ${code})`);
    return { config, url, enforcement, ended, close };
  } catch (error) {
    await close();
    throw error;
  }
}

interface Readiness {
  ready?: boolean;
  reasons?: string[];
  enforcement?: EnforcementReport | null;
}

async function untilReady(url: string, child: ChildProcess, signal: AbortSignal): Promise<EnforcementReport> {
  let last: Readiness = {};
  for (
    const deadline = Date.now() + READY_TIMEOUT_MS;
    Date.now() < deadline;
    await sleep(50, undefined, { signal })
  ) {
    if (child.exitCode !== null) throw new Error('djinnd does not start; its last words are above');
    const answer = await fetch(`${url}/readyz`, { signal: AbortSignal.timeout(5000) }).catch(() => null);
    if (answer === null) continue; // not listening yet
    last = (await answer.json()) as Readiness;
    if (last.enforcement?.refused === true) break;
    if (last.ready === true && last.enforcement) return last.enforcement;
  }
  throw new Error(`djinnd takes no jobs: ${last.reasons?.join('; ') ?? 'it does not answer'}`);
}

/** Two ports that are free now, held together so that they differ. */
async function freePorts(): Promise<[number, number]> {
  const servers = [createServer(), createServer()];
  const ports: number[] = [];
  for (const server of servers) {
    await new Promise<void>((resolve, reject) => {
      server.once('error', reject);
      server.listen(0, '127.0.0.1', resolve);
    });
    const address = server.address();
    ports.push(address !== null && typeof address === 'object' ? address.port : 0);
  }
  for (const server of servers) server.close();
  return [ports[0] ?? 0, ports[1] ?? 0];
}
