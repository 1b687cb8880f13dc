// From a cancel to an empty cgroup: a job with fifty processes, seen from outside at its cgroup's `populated`.
import { existsSync, readFileSync } from 'node:fs';
import { dirname, join } from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';
import type { Bench } from './bench.ts';
import { figure, type Part, p50, p99 } from './figures.ts';
import { textOf } from './over-http.ts';
import { familyOf } from './processes.ts';

const ROUNDS = 30;
const QUICK_ROUNDS = 4;
const PROCESSES = 50;
const PATIENCE_MS = 120_000;

const SCRIPT = `for i in $(seq ${PROCESSES}); do sleep 600 & done; wait`;
const PROMPT = JSON.stringify({ steps: [{ exec: { argv: ['/bin/sh', '-c', SCRIPT] } }] });

interface Kill {
  /** Milliseconds since the cancel was sent. */
  answeredMs: number;
  emptyMs: number;
  endedMs: number;
}

/** Where the calls of the tenant have their cgroups; null where there is no cgroup2. */
function callsDirectory({ daemon, tenants }: Bench): string | null {
  const spawner = familyOf(daemon.pid).spawner[0];
  const own = /^0::(.*)$/m.exec(readFileSync(`/proc/${spawner}/cgroup`, 'utf8'))?.[1];
  const mount = /^\S+ (\S+) cgroup2 /m.exec(readFileSync('/proc/self/mounts', 'utf8'))?.[1];
  if (own === undefined || mount === undefined) return null;
  const jobs = join(mount, dirname(own), 'jobs');
  return existsSync(jobs) ? join(jobs, tenants.scripted) : null;
}

function read(path: string): string {
  try {
    return readFileSync(path, 'latin1');
  } catch {
    return ''; // removed
  }
}

async function until(what: string, done: () => boolean, stepMs: number): Promise<void> {
  for (const deadline = performance.now() + PATIENCE_MS; !done(); await sleep(stepMs))
    if (performance.now() > deadline) throw new Error(`${what}: not within ${PATIENCE_MS} ms`);
}

async function killOnce({ caller, keys }: Bench, calls: string): Promise<Kill> {
  const key = keys.scripted;
  const started = await caller.post('/v1/jobs', key, { prompt: PROMPT }, { prefer: 'respond-async' });
  const { jobId } = JSON.parse(await textOf(started)) as { jobId: string };
  const call = join(calls, jobId);
  const members = (): number =>
    ['agent', 'tools'].flatMap((leaf) =>
      read(join(call, leaf, 'cgroup.procs'))
        .split('\n')
        .filter(Boolean),
    ).length;
  await until('all processes', () => members() >= PROCESSES, 10);
  const stream = caller.get(`/v1/jobs/${jobId}/events?follow=true`, key).then(textOf);
  await sleep(50);
  const beganMs = performance.now();
  const since = (): number => performance.now() - beganMs;
  const ended = stream.then(() => since());
  const answered = caller.post(`/v1/jobs/${jobId}/cancel`, key).then(async (response) => {
    await textOf(response);
    return since();
  });
  // A call that is gone was empty before.
  await until('populated 0', () => !read(join(call, 'cgroup.events')).includes('populated 1'), 1);
  const emptyMs = since();
  return { answeredMs: await answered, emptyMs, endedMs: await ended };
}

export async function measureKill(bench: Bench): Promise<Part> {
  const rounds = bench.quick ? QUICK_ROUNDS : ROUNDS;
  const calls = callsDirectory(bench);
  const kills: Kill[] = [];
  if (calls !== null) for (let round = 0; round < rounds; round++) kills.push(await killOnce(bench, calls));
  const row = (what: string, of: (kill: Kill) => number): string[] => {
    const sample = kills.map(of);
    return [what, figure(p50(sample)), figure(p99(sample))];
  };
  return {
    name: 'kill',
    title: `Cancel of a job with ${PROCESSES} processes, ms since the request (${kills.length} jobs)`,
    columns: ['', 'p50', 'p99'],
    rows: [
      row('request answered', ({ answeredMs }) => answeredMs),
      row('cgroup empty (`populated 0`)', ({ emptyMs }) => emptyMs),
      row('`end` read by the client', ({ endedMs }) => endedMs),
    ],
    notes: calls === null ? ['not measured: no cgroup2 on this machine'] : [],
    data: kills,
  };
}
