// Resident memory of each process: at rest, and with two hundred streams open on a few running jobs.
import type { IncomingMessage } from 'node:http';
import { setTimeout as sleep } from 'node:timers/promises';
import type { Bench } from './bench.ts';
import type { Part } from './figures.ts';
import { textOf } from './over-http.ts';
import { familyOf, type Memory, memoryOf, ROLES, type Role } from './processes.ts';

const STREAMS = 200;
const QUICK_STREAMS = 20;
const JOBS = 4;
const SETTLE_MS = 2_000;

type Reading = Record<Role, Memory>;

const PROMPT = JSON.stringify({
  steps: [{ tokens: { count: 1000, bytes: 40 } }, { sleepMs: 500_000 }],
});

async function readNow(bench: Bench): Promise<Reading> {
  await sleep(SETTLE_MS);
  const family = familyOf(bench.daemon.pid);
  return Object.fromEntries(ROLES.map((role) => [role, memoryOf(family[role])])) as Reading;
}

async function withStreams(bench: Bench, count: number): Promise<Reading> {
  const { caller, keys } = bench;
  const key = keys.scripted;
  const jobIds: string[] = [];
  const open: IncomingMessage[] = [];
  try {
    for (let index = 0; index < JOBS; index++) {
      const answer = await caller.post('/v1/jobs', key, { prompt: PROMPT }, { prefer: 'respond-async' });
      jobIds.push((JSON.parse(await textOf(answer)) as { jobId: string }).jobId);
    }
    for (let index = 0; index < count; index++) {
      const response = await caller.get(`/v1/jobs/${jobIds[index % JOBS]}/events?follow=true`, key);
      if (response.statusCode !== 200) throw new Error(`stream ${index}: ${response.statusCode}`);
      response.on('error', () => {}); // it is destroyed below
      open.push(response.resume());
    }
    return await readNow(bench);
  } finally {
    for (const response of open) response.destroy();
    for (const jobId of jobIds) await textOf(await caller.post(`/v1/jobs/${jobId}/cancel`, key));
  }
}

const mib = (bytes: number): string => (bytes / 1024 ** 2).toFixed(1);

export async function measureMemory(bench: Bench): Promise<Part> {
  const count = bench.quick ? QUICK_STREAMS : STREAMS;
  const rest = await readNow(bench);
  const streams = await withStreams(bench, count);
  const row = (what: string, of: (reading: Reading) => Memory): string[] => [
    what,
    ...[rest, streams].flatMap((reading) => [mib(of(reading).rssBytes), mib(of(reading).pssBytes)]),
  ];
  const total = (reading: Reading): Memory => ({
    rssBytes: ROLES.reduce((sum, role) => sum + reading[role].rssBytes, 0),
    pssBytes: ROLES.reduce((sum, role) => sum + reading[role].pssBytes, 0),
  });
  return {
    name: 'memory',
    title: `Resident memory, MiB: at rest, and with ${count} open streams on ${JOBS} running jobs`,
    columns: ['', 'rest: Rss', 'Pss', 'streams: Rss', 'Pss'],
    rows: [
      ...ROLES.map((role) => row(role === 'postgres' ? 'postgres (all)' : role, (reading) => reading[role])),
      row('together', total),
    ],
    notes: ['Pss counts shared pages once; the sum of Rss counts Postgres’s shared buffers once per process'],
    data: { rest, streams },
  };
}
