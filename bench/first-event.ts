// First event and whole time of a trivial job: over HTTP against the same program started bare, turn by turn.
import { type BareRun, bareJob, type Engine, runBare } from './bare.ts';
import type { Bench } from './bench.ts';
import { figure, type Part, p50, p95 } from './figures.ts';
import type { HttpRun } from './over-http.ts';

const ROUNDS = 60;
const QUICK_ROUNDS = 6;
const WARM_UP_ROUNDS = 3;
const QUICK_WARM_UP_ROUNDS = 1;

interface Samples {
  bare: BareRun[];
  http: HttpRun[];
}

/** Bare and HTTP alternate, so that whatever else the machine does meets both. */
async function sampleEngine(bench: Bench, engine: Engine, rounds: number): Promise<Samples> {
  const samples: Samples = { bare: [], http: [] };
  const job = bareJob(engine, 'hello', bench.modelUrl, bench.scratch);
  const warmUp = bench.quick ? QUICK_WARM_UP_ROUNDS : WARM_UP_ROUNDS;
  for (let round = -warmUp; round < rounds; round++) {
    const bare = await runBare(engine, job);
    const http = await bench.caller.run(bench.keys[engine], { prompt: 'hello' });
    if (round < 0) continue;
    samples.bare.push(bare);
    samples.http.push(http);
  }
  return samples;
}

function rowsOf(engine: Engine, { bare, http }: Samples): string[][] {
  const row = (what: string, base: number[], ours: number[]): string[] => [
    `${engine}: ${what}`,
    ...[p50(base), p95(base), p50(ours), p95(ours), p50(ours) / p50(base), p95(ours) / p95(base)].map(figure),
  ];
  const first = bare.map(({ firstMs }) => firstMs);
  return [
    row(
      'line `running`',
      [],
      http.map(({ runningMs }) => runningMs),
    ),
    row(
      'first event',
      first,
      http.map(({ firstMs }) => firstMs),
    ),
    row(
      'whole job',
      bare.map(({ wholeMs }) => wholeMs),
      http.map(({ wholeMs }) => wholeMs),
    ),
  ];
}

export async function measureFirstEvent(bench: Bench): Promise<Part> {
  const rounds = bench.quick ? QUICK_ROUNDS : ROUNDS;
  const scripted = await sampleEngine(bench, 'scripted', rounds);
  const djinn = await sampleEngine(bench, 'djinn', rounds);
  return {
    name: 'first-event',
    title: `First event and whole time of a trivial job, ms (${rounds} of each, bare and HTTP in turn)`,
    columns: ['', 'bare p50', 'p95', 'HTTP p50', 'p95', 'ratio p50', 'p95'],
    rows: [...rowsOf('scripted', scripted), ...rowsOf('djinn', djinn)],
    notes: [],
    data: { rounds, scripted, djinn },
  };
}
