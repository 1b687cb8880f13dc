// kill -9 of djinnd and of the spawner, one after the other and together: every job ends once and no line is lost (C095).
import assert from 'node:assert/strict';
import { type ChildProcess, spawn } from 'node:child_process';
import { once } from 'node:events';
import { existsSync, rmdirSync } from 'node:fs';
import { join } from 'node:path';
import { after, before, test } from 'node:test';
import { setTimeout as sleep } from 'node:timers/promises';
import { fileURLToPath } from 'node:url';
import { type JobsBench, startJobs, tokens } from '../../support/jobs.ts';
import { startPostgres, type TestPostgres } from '../../support/postgres.ts';
import { makeDirs, SpawnerBench, testCgroup } from '../../support/spawner.ts';

const support = (name: string) => fileURLToPath(new URL(`../../support/${name}`, import.meta.url));
const cgroupRoot = testCgroup();
const dirs = makeDirs();
let postgres: TestPostgres;
let spawner: SpawnerBench;
/** Admits and reads; it never starts, so it runs no job. */
let desk: JobsBench;
const children: Record<'spawner' | 'djinnd', ChildProcess | null> = { spawner: null, djinnd: null };

before(async () => {
  postgres = await startPostgres();
  await start('spawner');
  spawner = new SpawnerBench(dirs, null);
  await spawner.connected();
  desk = await startJobs(postgres, spawner.client, { stateDir: dirs.stateDir, idle: true });
  await desk.tenant('acme', { maxRunning: 16 });
  await start('djinnd');
});
after(async () => {
  await kill('djinnd');
  await kill('spawner');
  await desk?.stop();
  await spawner?.close();
  await postgres?.stop();
  if (cgroupRoot === null || !existsSync(cgroupRoot)) return;
  for (const name of ['jobs', 'supervisor', '']) rmdirSync(join(cgroupRoot, name));
});

async function start(which: 'spawner' | 'djinnd'): Promise<void> {
  const socket = join(dirs.runDir, 'spawner.sock');
  const argument =
    which === 'spawner'
      ? { ...dirs, cgroupRoot }
      : { database: desk.database, socket, stateDir: dirs.stateDir };
  const program = support(which === 'spawner' ? 'spawner-process.ts' : 'jobs-process.ts');
  const child = spawn(process.execPath, [program, JSON.stringify(argument)], {
    stdio: ['ignore', 'pipe', 'inherit'],
  });
  children[which] = child;
  await once(child.stdout, 'data');
}

async function kill(which: 'spawner' | 'djinnd'): Promise<void> {
  const child = children[which];
  children[which] = null;
  if (child === null) return;
  const exit = once(child, 'exit');
  child.kill('SIGKILL');
  await exit;
}

const steps = (count: number, pauseMs: number) => [
  ...Array.from({ length: count }, (_, n) => [
    { emit: { type: 'token', text: `n${n}` } },
    { sleepMs: pauseMs },
  ]).flat(),
  { done: 0 },
];
const submitRunning = async (count: number, pauseMs: number) => {
  const jobs = await Promise.all([1, 2, 3].map(() => desk.submit(steps(count, pauseMs))));
  for (const { jobId } of jobs) await desk.until(jobId, ({ state }) => state === 'running');
  return jobs;
};

test('djinnd is killed: running jobs go on under the next one, in one attempt', async () => {
  const jobs = await submitRunning(30, 40);
  const waiting = await desk.submit(steps(1, 1), { sessionId: jobs[0]?.sessionId ?? '' });
  const reading = jobs.map(({ jobId }) => desk.read(jobId));
  await kill('djinnd');
  await sleep(200);
  await start('djinnd');
  for (const [index, { jobId }] of jobs.entries()) {
    const view = await desk.ended(jobId);
    assert.deepEqual([view.outcome, view.attempt], ['ok', 1]);
    const { lines, text } = await desk.read(jobId);
    assert.deepEqual(
      tokens(lines),
      Array.from({ length: 30 }, (_, n) => `n${n}`),
    );
    assert.equal(text, (await reading[index])?.text);
  }
  assert.equal((await desk.ended(waiting.jobId)).outcome, 'ok');
});

test('the spawner is killed: each job runs once more and has one end', async (t) => {
  if (cgroupRoot === null)
    return t.skip('no cgroup v2: the plain launcher has nothing that ends its programs');
  const jobs = await submitRunning(10, 60);
  const reading = jobs.map(({ jobId }) => desk.read(jobId));
  await kill('spawner');
  await start('spawner');
  for (const [index, { jobId }] of jobs.entries()) {
    const view = await desk.ended(jobId);
    assert.deepEqual([view.outcome, view.attempt], ['ok', 2]);
    const { lines, text } = (await reading[index]) as Awaited<ReturnType<typeof desk.read>>;
    assert.equal(lines.filter(({ type }) => type === 'end').length, 1);
    assert.equal(lines.filter(({ state }) => state === 'retrying').length, 1);
    assert.equal((await desk.read(jobId)).text, text);
  }
});

test('both are killed at once, and again in the second attempt: the job ends as lost, once', async (t) => {
  if (cgroupRoot === null)
    return t.skip('no cgroup v2: the plain launcher has nothing that ends its programs');
  const jobs = await submitRunning(100, 60);
  for (const attempt of [1, 2]) {
    for (const { jobId } of jobs)
      await desk.until(jobId, (job) => job.attempt === attempt && job.state === 'running');
    await Promise.all([kill('djinnd'), kill('spawner')]);
    await start('spawner');
    await start('djinnd');
  }
  for (const { jobId } of jobs) {
    const view = await desk.ended(jobId);
    assert.deepEqual([view.outcome, view.attempt], ['lost', 2]);
    const { lines } = await desk.read(jobId);
    assert.equal(lines.filter(({ type }) => type === 'end').length, 1);
    assert.equal(lines.at(-1)?.outcome, 'lost');
  }
});
