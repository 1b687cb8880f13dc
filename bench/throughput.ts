// Jobs per second at 1, 4 and 16 at a time, against the same program started bare as many at a time. With the
// processor time of each part of the system, which does not depend on what else the machine does.
import { bareJob, type Engine, runBare } from './bare.ts';
import type { Bench } from './bench.ts';
import { figure, type Part } from './figures.ts';
import { type Cpu, cpuBetween, cpuOf, ownChildrenCpuMs } from './processes.ts';

const AT_ONCE = [1, 4, 16];
const BLOCK_JOBS = 48;
const QUICK_BLOCK_JOBS = 16;
const BLOCKS = 3;
const QUICK_BLOCKS = 1;

interface Rate {
  engine: Engine;
  atOnce: number;
  jobs: number;
  bareSeconds: number;
  httpSeconds: number;
  bareCpuMs: number;
  cpuMs: Cpu & { sandboxed: number };
}

/** Runs `count` jobs, `atOnce` at any time. Seconds. */
async function block(count: number, atOnce: number, job: () => Promise<unknown>): Promise<number> {
  let left = count;
  const lane = async (): Promise<void> => {
    while (left > 0) {
      left -= 1;
      await job();
    }
  };
  const beganMs = performance.now();
  await Promise.all(Array.from({ length: atOnce }, lane));
  return (performance.now() - beganMs) / 1000;
}

async function measureRate(bench: Bench, engine: Engine, atOnce: number): Promise<Rate> {
  const count = bench.quick ? QUICK_BLOCK_JOBS : BLOCK_JOBS;
  const blocks = bench.quick ? QUICK_BLOCKS : BLOCKS;
  const job = bareJob(engine, 'hello', bench.modelUrl, bench.scratch);
  const rate: Rate = {
    ...{ engine, atOnce, jobs: count * blocks, bareSeconds: 0, httpSeconds: 0, bareCpuMs: 0 },
    cpuMs: { djinnd: 0, spawner: 0, sandboxed: 0, postgres: 0 },
  };
  await block(bench.quick ? atOnce : count, atOnce, () =>
    bench.caller.run(bench.keys[engine], { prompt: 'hello' }),
  ); // code gets warm
  for (let index = 0; index < blocks; index++) {
    const bareBefore = ownChildrenCpuMs();
    rate.bareSeconds += await block(count, atOnce, () => runBare(engine, job));
    rate.bareCpuMs += ownChildrenCpuMs() - bareBefore;
    const before = cpuOf(bench.daemon.pid);
    rate.httpSeconds += await block(count, atOnce, async () => {
      const { cpuMs } = await bench.caller.run(bench.keys[engine], { prompt: 'hello' });
      rate.cpuMs.sandboxed += cpuMs;
    });
    const used = cpuBetween(before, cpuOf(bench.daemon.pid));
    for (const part of ['djinnd', 'spawner', 'postgres'] as const) rate.cpuMs[part] += used[part];
  }
  return rate;
}

function rowOf({ engine, atOnce, jobs, bareSeconds, httpSeconds, bareCpuMs, cpuMs }: Rate): string[] {
  const perJob = (ms: number): string => figure(ms / jobs);
  return [
    `${engine}, ${atOnce} at a time`,
    ...[jobs / bareSeconds, jobs / httpSeconds, bareSeconds / httpSeconds].map(figure),
    ...[bareCpuMs, cpuMs.sandboxed, cpuMs.spawner, cpuMs.djinnd, cpuMs.postgres].map(perJob),
  ];
}

export async function measureThroughput(bench: Bench): Promise<Part> {
  const rates: Rate[] = [];
  for (const engine of ['scripted', 'djinn'] as const)
    for (const atOnce of AT_ONCE) rates.push(await measureRate(bench, engine, atOnce));
  return {
    name: 'throughput',
    title: 'Jobs per second, and processor time per job in ms',
    columns: ['', 'bare/s', 'HTTP/s', 'ratio', 'cpu: bare', 'sandboxed', 'spawner', 'djinnd', 'postgres'],
    rows: rates.map(rowOf),
    notes: ['sandboxed: launcher, sandbox and program; this client is in no column'],
    data: rates,
  };
}
