// One run of one agent in one scenario: wall time, largest resident process, bytes on stdout, whether it did its work.
import { type ChildProcess, spawn } from 'node:child_process';
import { mkdirSync, mkdtempSync, readFileSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import type { Agent } from './agents.ts';
import { DELTA, type Scenario } from './scenario.ts';

export interface Sample {
  seconds: number;
  /** Resident size of the largest process of the run at its peak, MB (10^6 bytes). */
  peakMB: number;
  stdoutBytes: number;
}

const LONGEST_MS = 180_000;
const PATH = `${join(process.execPath, '..')}:/usr/local/bin:/usr/bin:/bin`;

async function startServer(agent: Agent, scenario: Scenario): Promise<{ child: ChildProcess; url: string }> {
  const call = JSON.stringify(agent.tool(scenario.command));
  const args = [join(import.meta.dirname, 'server.ts'), agent.wire, JSON.stringify(scenario), call];
  const child = spawn(process.execPath, args, { stdio: ['ignore', 'pipe', 'inherit'] });
  const port = await new Promise<string>((resolve, reject) => {
    child.stdout?.once('data', (text) => resolve(String(text).trim()));
    child.once('exit', (code) => reject(new Error(`the model server ended with ${code}`)));
  });
  return { child, url: `http://127.0.0.1:${port}` };
}

/** Rejects when the agent failed, took too long, or its output does not hold the whole answer. */
async function runOnce(agent: Agent, scenario: Scenario, url: string, bin: string): Promise<Sample> {
  const dir = mkdtempSync(join(tmpdir(), 'djinnd-bench-agent-'));
  const [home, cwd, report] = [join(dir, 'home'), join(dir, 'work'), join(dir, 'time')];
  mkdirSync(home);
  mkdirSync(cwd);
  try {
    const { argv, env } = agent.run({ url, home, bin, prompt: 'go' });
    const timed = ['--quiet', '--format', '%e %M', '--output', report, ...argv];
    const startMs = performance.now();
    const child = spawn('time', timed, {
      ...{ cwd, env: { PATH, HOME: home, LANG: 'C.UTF-8', TERM: 'dumb', ...env } },
      stdio: ['ignore', 'pipe', 'pipe'],
      timeout: LONGEST_MS,
    });
    let stdoutBytes = 0;
    let words = 0;
    let rest = '';
    let errors = '';
    child.stdout.setEncoding('latin1').on('data', (text: string) => {
      stdoutBytes += text.length;
      words += (rest + text).split(DELTA).length - 1;
      rest = (rest + text).slice(-(DELTA.length - 1));
    });
    child.stderr.on('data', (text) => (errors = (errors + text).slice(-2000)));
    const code = await new Promise<number | null>((resolve, reject) => {
      child.once('error', reject);
      child.once('close', resolve);
    });
    const seconds = (performance.now() - startMs) / 1000;
    if (code !== 0) throw new Error(`${agent.name}, ${scenario.name}: exit code ${code}: ${errors}`);
    if (words < scenario.deltas)
      throw new Error(`${agent.name}, ${scenario.name}: only ${words} deltas came: ${errors}`);
    const peakKiB = Number(readFileSync(report, 'utf8').trim().split(' ').at(-1));
    return { seconds, peakMB: (peakKiB * 1024) / 1e6, stdoutBytes };
  } finally {
    rmSync(dir, { recursive: true, force: true });
  }
}

/** Runs the scenario so many times, after one run that does not count. */
export async function measureAgent(
  agent: Agent,
  scenario: Scenario,
  times: number,
  bin: string,
): Promise<Sample[]> {
  const { child, url } = await startServer(agent, scenario);
  try {
    await runOnce(agent, scenario, url, bin);
    const samples: Sample[] = [];
    for (let round = 0; round < times; round += 1) samples.push(await runOnce(agent, scenario, url, bin));
    return samples;
  } finally {
    child.kill('SIGKILL');
  }
}
