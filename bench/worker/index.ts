// Measures the worker side by side with its peers, each against a model server of its own wire format, in a network
// namespace with nothing but loopback.
//
//   node bench/worker/index.ts [--peers DIR] [--only AGENT] [--scenario NAME] [--times N] [--json FILE]
import { spawnSync } from 'node:child_process';
import { existsSync, mkdirSync, readFileSync, writeFileSync } from 'node:fs';
import { availableParallelism, loadavg, release, tmpdir } from 'node:os';
import { join } from 'node:path';
import { parseArgs } from 'node:util';
import { figure, formatPart, p50 } from '../figures.ts';
import { AGENTS } from './agents.ts';
import { measureAgent, type Sample } from './measure.ts';
import { DELTA, SCENARIOS } from './scenario.ts';

const INSIDE = 'DJINND_BENCH_INSIDE';

const again = process.argv.slice(2);
const { values } = parseArgs({
  args: again[0] === 'worker' ? again.slice(1) : again,
  options: {
    peers: { type: 'string', default: join(tmpdir(), 'djinnd-bench-peers') },
    only: { type: 'string' },
    scenario: { type: 'string' },
    times: { type: 'string', default: '5' },
    json: { type: 'string' },
  },
});

/** Outside the repository: the product never depends on them. */
function installPeers(): void {
  const wanted = AGENTS.flatMap(({ packages = [] }) => packages);
  const present = (one: string): boolean => {
    const at = one.lastIndexOf('@');
    const manifest = join(values.peers, 'node_modules', one.slice(0, at), 'package.json');
    return existsSync(manifest) && JSON.parse(readFileSync(manifest, 'utf8')).version === one.slice(at + 1);
  };
  if (wanted.every(present)) return;
  mkdirSync(values.peers, { recursive: true });
  if (!existsSync(join(values.peers, 'package.json')))
    writeFileSync(join(values.peers, 'package.json'), '{"private":true}');
  const npm = ['install', '--no-audit', '--no-fund', '--save-exact', ...wanted];
  const { status } = spawnSync('npm', npm, { cwd: values.peers, stdio: ['ignore', 2, 2] });
  if (status !== 0) throw new Error(`the peers cannot be installed in ${values.peers}`);
}

/** Runs this program again where nothing but loopback can be reached. */
function enterNamespace(): number {
  const enter = 'ip link set lo up && exec "$@"';
  const argv = ['--net', '--', 'sh', '-c', enter, 'sh', process.execPath, ...process.argv.slice(1)];
  // It ends with this process, however that ends.
  const { status, error } = spawnSync('setpriv', ['--pdeathsig=TERM', '--', 'unshare', ...argv], {
    stdio: 'inherit',
    env: { ...process.env, [INSIDE]: '1' },
  });
  if (error !== undefined) throw error;
  return status ?? 1;
}

const median = (samples: Sample[], of: (sample: Sample) => number): number => p50(samples.map(of));

async function measure(): Promise<void> {
  const load = loadavg()[0] ?? 0;
  console.log(
    `${availableParallelism()} cores, kernel ${release()}, Node ${process.version}, load before ${load.toFixed(1)}; medians of ${values.times}\n`,
  );
  const agents = AGENTS.filter(({ name }) => values.only === undefined || values.only === name);
  const all: Record<string, Record<string, Sample[] | string>> = {};
  for (const scenario of SCENARIOS) {
    if (values.scenario !== undefined && values.scenario !== scenario.name) continue;
    const rows: string[][] = [];
    const notes: string[] = [];
    all[scenario.name] = {};
    for (const agent of agents) {
      try {
        const samples = await measureAgent(
          agent,
          scenario,
          Number(values.times),
          join(values.peers, 'node_modules/.bin'),
        );
        (all[scenario.name] as Record<string, unknown>)[agent.name] = samples;
        const seconds = median(samples, (sample) => sample.seconds);
        const text = scenario.deltas * DELTA.length;
        rows.push([
          agent.name,
          seconds.toFixed(3),
          figure(median(samples, (sample) => sample.peakMB)),
          scenario.deltas > 1 ? figure(scenario.deltas / seconds) : '',
          scenario.deltas > 1 ? `${figure(median(samples, (sample) => sample.stdoutBytes) / text)}×` : '',
        ]);
      } catch (error) {
        const reason = (error as Error).message;
        (all[scenario.name] as Record<string, unknown>)[agent.name] = reason;
        rows.push([agent.name, 'failed', '', '', '']);
        notes.push(reason.replaceAll('\n', ' ').slice(0, 300));
      }
    }
    const columns = ['', 'seconds', 'peak MB', 'deltas/s', 'stdout/text'];
    console.log(formatPart({ name: scenario.name, title: scenario.name, columns, rows, notes, data: null }));
  }
  if (values.json !== undefined) writeFileSync(values.json, `${JSON.stringify(all, null, 1)}\n`);
}

if (process.env[INSIDE] === '1') await measure();
else {
  if (values.only !== 'djinn') installPeers();
  process.exitCode = enterNamespace();
}
