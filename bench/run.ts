// Measures djinnd on this machine and prints what it found. docs/performance.md says how and why.
//
//   npm run bench [-- --only NAME] [--quick] [--json FILE] [--vm]
//   npm run bench -- worker [--only AGENT] [--times N] [--json FILE] [--peers DIR]      see worker/index.ts
import { writeFileSync } from 'node:fs';
import { availableParallelism, loadavg, release } from 'node:os';
import { parseArgs } from 'node:util';
import { formatEnforcement } from '../daemon/commands/enforcement-table.ts';
import { type Bench, openBench } from './bench.ts';
import { formatPart, type Part } from './figures.ts';
import { measureFirstEvent } from './first-event.ts';
import { measureKill } from './kill.ts';
import { measureMemory } from './memory.ts';
import { measureStream } from './stream.ts';
import { measureThroughput } from './throughput.ts';
import { runInMachine } from './vm.ts';

/** Memory first: what the others leave behind in the heaps is not rest. */
const PARTS: Record<string, (bench: Bench) => Promise<Part>> = {
  memory: measureMemory,
  'first-event': measureFirstEvent,
  throughput: measureThroughput,
  stream: measureStream,
  kill: measureKill,
};
const LONGEST_MS = process.env.IN_VM === '1' ? 40 * 60_000 : 25 * 60_000;

const LOG_BYTES = 8000;

const isWorker = process.argv[2] === 'worker';

const { values } = parseArgs({
  args: isWorker ? [] : process.argv.slice(2),
  options: {
    only: { type: 'string' },
    quick: { type: 'boolean', default: false },
    json: { type: 'string' },
    vm: { type: 'boolean', default: false },
  },
});

function machine() {
  const load = loadavg()[0] ?? 0;
  return { cores: availableParallelism(), kernel: release(), node: process.version, load };
}

async function measure(names: string[]): Promise<void> {
  const before = machine();
  const stopped = new AbortController();
  const stop = (): void => stopped.abort(new Error('stopped'));
  process.once('SIGINT', stop).once('SIGTERM', stop);
  const timer = setTimeout(() => stopped.abort(new Error(`not done in ${LONGEST_MS} ms`)), LONGEST_MS);
  const aborted = new Promise<never>((_, reject) =>
    stopped.signal.addEventListener('abort', () => reject(stopped.signal.reason)),
  );
  aborted.catch(() => {}); // raced below
  const bench = await openBench(values.quick);
  const parts: Part[] = [];
  try {
    const { cores, kernel, node, load } = before;
    console.log(`${cores} cores, kernel ${kernel}, Node ${node}, load before ${load.toFixed(1)}\n`);
    console.log(formatEnforcement(bench.enforcement));
    for (const name of names) {
      const part = await Promise.race([PARTS[name]?.(bench), aborted]);
      if (part === undefined) continue;
      parts.push(part);
      console.log(formatPart(part));
    }
  } catch (error) {
    console.error(`what djinnd said last:\n${(await bench.daemon.log()).slice(-LOG_BYTES)}`);
    throw error;
  } finally {
    clearTimeout(timer);
    process.removeListener('SIGINT', stop).removeListener('SIGTERM', stop);
    await bench.close();
  }
  if (values.json === undefined) return;
  const { hierarchy, mode, controls } = bench.enforcement;
  const levels = Object.fromEntries(Object.entries(controls).map(([name, { level }]) => [name, level]));
  const result = { machine: before, enforcement: { hierarchy, mode, levels }, parts };
  writeFileSync(values.json, `${JSON.stringify(result, null, 2)}\n`);
}

const names = values.only === undefined ? Object.keys(PARTS) : [values.only];
const unknown = names.filter((name) => !Object.hasOwn(PARTS, name));
if (isWorker) await import('./worker/index.ts');
else if (unknown.length > 0) {
  console.error(`there is no part ${unknown.join(', ')}; parts are ${Object.keys(PARTS).join(', ')}`);
  process.exitCode = 2;
} else if (values.vm) process.exitCode = await runInMachine(values.only, values.json);
else await measure(names);
