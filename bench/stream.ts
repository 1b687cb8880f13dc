// Events per second of one stream over HTTP, against the same program through a plain pipe.
import { bareJob, runBare } from './bare.ts';
import type { Bench } from './bench.ts';
import { figure, type Part, p50 } from './figures.ts';
import { type Cpu, cpuBetween, cpuOf } from './processes.ts';

const ROUNDS = 3;
const QUICK_ROUNDS = 1;
const LINE_BYTES = 64;

interface Load {
  what: string;
  events: number;
  step: object;
}

const loads = (events: number): Load[] => [
  {
    what: 'each event written by itself',
    events,
    step: { tokens: { count: events, bytes: LINE_BYTES - 28 } },
  },
  {
    what: 'events written in blocks',
    events: events * 4,
    step: { flood: { bytes: events * 4 * LINE_BYTES, lineBytes: LINE_BYTES } },
  },
];

interface Rate {
  what: string;
  events: number;
  pipePerSecond: number[];
  httpPerSecond: number[];
  cpuMs: Cpu;
}

async function measureLoad(bench: Bench, { what, events, step }: Load, rounds: number): Promise<Rate> {
  const prompt = JSON.stringify({ steps: [step] });
  const cpuMs: Cpu = { djinnd: 0, spawner: 0, postgres: 0 };
  const rate: Rate = { what, events, pipePerSecond: [], httpPerSecond: [], cpuMs };
  const job = bareJob('scripted', prompt, bench.modelUrl, bench.scratch);
  for (let round = 0; round < rounds; round++) {
    const bare = await runBare('scripted', job);
    rate.pipePerSecond.push((events / (bare.wholeMs - bare.firstMs)) * 1000);
    const before = cpuOf(bench.daemon.pid);
    const http = await bench.caller.run(bench.keys.scripted, { prompt });
    const used = cpuBetween(before, cpuOf(bench.daemon.pid));
    for (const part of ['djinnd', 'spawner', 'postgres'] as const) cpuMs[part] += used[part];
    if (http.lines < events) throw new Error(`${http.lines} lines came of ${events} events`);
    rate.httpPerSecond.push((events / (http.wholeMs - http.firstMs)) * 1000);
  }
  return rate;
}

export async function measureStream(bench: Bench): Promise<Part> {
  const rounds = bench.quick ? QUICK_ROUNDS : ROUNDS;
  const rates: Rate[] = [];
  for (const load of loads(bench.quick ? 20_000 : 250_000))
    rates.push(await measureLoad(bench, load, rounds));
  return {
    name: 'stream',
    title: `Events per second of one stream, lines of ${LINE_BYTES} bytes (median of ${rounds})`,
    columns: ['', 'events', 'plain pipe', 'HTTP', 'ratio', 'cpu µs/event: spawner', 'djinnd', 'postgres'],
    rows: rates.map(({ what, events, pipePerSecond, httpPerSecond, cpuMs }) => {
      const [pipe, http] = [p50(pipePerSecond), p50(httpPerSecond)];
      const cpu = [cpuMs.spawner, cpuMs.djinnd, cpuMs.postgres].map((ms) => (ms * 1000) / (events * rounds));
      return [what, ...[events, pipe, http, http / pipe, ...cpu].map(figure)];
    }),
    notes: [
      'from the program’s first event to the end of the stream; every event is checked, spooled and stored',
    ],
    data: rates,
  };
}
