// A scripted job of 12 steps that is killed at random moments and resumed, and what must hold afterwards. One seed is
// one run; the same seed gives the same choices, though not the same scheduling.
import assert from 'node:assert/strict';
import { existsSync, readdirSync, readFileSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import type { TestContext } from 'node:test';
import { setTimeout as sleep } from 'node:timers/promises';
import {
  type Chunk,
  contentChunk,
  type Script,
  toolCallChunk,
  type WorkerEvent,
} from '../../worker/index.ts';
import { verifyLog } from '../../worker/replay/verify.ts';
import { withLog } from '../../worker/session/log-file.ts';
import { parseRecord } from '../../worker/session/record.ts';
import { type Provider, type Scene, setScene } from './providers.ts';
import { buildBundle, parseEvents, terminal, type WorkerProcess } from './worker-process.ts';

const STEPS = 12;

/** Numbers in [0, 1) from a seed (mulberry32). */
export function randomFrom(seed: number): () => number {
  let state = seed;
  return () => {
    state = (state + 0x6d2b79f5) | 0;
    let value = Math.imul(state ^ (state >>> 15), state | 1);
    value ^= value + Math.imul(value ^ (value >>> 7), value | 61);
    return ((value ^ (value >>> 14)) >>> 0) / 4294967296;
  };
}

const append = (step: number, index = 0): Chunk =>
  toolCallChunk('bash', { command: `echo ${step}.${index} >> ran` }, { id: `b${step}_${index}`, index });

/** Commands that count themselves, edits that would count twice, reads, and rounds of several calls. */
const CALLS: readonly ((step: number) => Chunk[])[] = [
  (step) => [append(step)],
  (step) => [
    toolCallChunk('read_file', { path: 'list' }, { id: `r${step}` }),
    toolCallChunk('glob', { pattern: '*' }, { id: `g${step}`, index: 1 }),
    append(step, 2),
  ],
  (step) => [
    toolCallChunk(
      'edit_file',
      { path: 'list', old_string: 'end\n', new_string: `item ${step}\nend\n` },
      { id: `e${step}` },
    ),
  ],
  (step) => [
    toolCallChunk('write_file', { path: `f${step}`, content: `${step}\n` }, { id: `w${step}` }),
    append(step, 1),
    append(step, 2),
  ],
];

// biome-ignore lint/suspicious/noExplicitAny: bodies of any form.
const roundsIn = (body: any): number =>
  body.messages.filter((one: { tool_calls?: unknown }) => one.tool_calls !== undefined).length;

const script: Script = ({ body }) => {
  const step = roundsIn(body);
  if (step >= STEPS) return { sse: [contentChunk('all '), contentChunk('done')], pauseMs: 1 };
  const calls = (CALLS[step % CALLS.length] as (typeof CALLS)[number])(step);
  return { sse: [contentChunk(`step ${step} `), ...calls], pauseMs: 1 };
};

export interface KillRun {
  seed: number;
  provider: Provider;
  /** About as long as one step takes; the kill falls within it. */
  stepMs: number;
}

export interface KillReport {
  /** Processes that died of it; the others had ended before. */
  kills: number;
  torn: number;
  /** Commands that a kill hit, and edits that were found done or done again. */
  interrupted: number;
}

/** What the caller of a killed process had seen, whole lines only. */
function seenBy(worker: WorkerProcess): WorkerEvent[] {
  const text = worker.stdout();
  return parseEvents(text.slice(0, text.lastIndexOf('\n') + 1));
}

interface Told {
  prompts: string[];
  events: WorkerEvent[];
}

/** Lines that are no record, here and in the file where they were set aside. */
function tornLines(log: string): number {
  const texts = [log, `${log}.torn`].filter((path) => existsSync(path)).map((path) => readFileSync(path));
  return texts
    .flatMap((bytes) => bytes.toString('latin1').split('\n'))
    .filter((line) => line !== '' && !parseRecord(Buffer.from(line, 'latin1')).ok).length;
}

function checkLog(scene: Scene, told: Told, kills: number, where: string): number {
  const torn = tornLines(scene.log);
  assert.ok(torn <= kills, `${where}: ${torn} torn lines of ${kills} kills`);
  const text = readFileSync(scene.log, 'utf8');
  for (const event of told.events) {
    if (event.type === 'tool_call') assert.ok(text.includes(`"id":"${event.id}"`), `${where}: ${event.id}`);
    if (event.type === 'tool_result')
      assert.ok(text.includes(`"callId":"${event.id}"`), `${where}: ${event.id}`);
  }
  const { problems, unverified } = withLog(scene.log, verifyLog);
  const [real, rest] = [problems.filter((one) => one.kind !== 'damaged'), problems.length];
  assert.deepEqual([real, unverified], [[], []], where);
  assert.ok(rest <= kills, where);
  return torn;
}

function checkWork(scene: Scene, told: Told, where: string): number {
  for (const request of scene.fake.requests) assert.deepEqual(request.problems, [], where);
  const messages: { role: string; content: string }[] = scene.fake.requests.at(-1)?.body.messages;
  const said = messages.filter((one) => one.role === 'user').map((one) => one.content);
  for (const prompt of told.prompts) assert.ok(said.includes(prompt), `${where}: ${prompt} is lost`);
  const ran = existsSync(join(scene.home, 'ran'))
    ? readFileSync(join(scene.home, 'ran'), 'utf8').trim().split('\n')
    : [];
  assert.deepEqual(ran, [...new Set(ran)], `${where}: a command ran twice`);
  const items = readFileSync(join(scene.home, 'list'), 'utf8').trim().split('\n');
  assert.deepEqual(items, ['item 2', 'item 6', 'item 10', 'end'], where);
  for (const step of [3, 7, 11])
    assert.equal(readFileSync(join(scene.home, `f${step}`), 'utf8'), `${step}\n`, where);
  const left = readdirSync(scene.home).filter((name) => name.startsWith('.djinn-write'));
  // Swept by the next writer in that folder; a kill after the last write leaves one.
  assert.ok(left.length <= 1, where);
  const results = messages.filter((one) => one.role === 'tool').map((one) => one.content);
  const interrupted = results.filter((content) => content.startsWith('interrupted:')).length;
  // Every command either ran, or its result says that it was interrupted.
  assert.ok(ran.length + interrupted >= 3 * 4, `${where}: ${ran.length} ran, ${interrupted} interrupted`);
  return interrupted;
}

/**
 * Waits for a random step of this process, counted by the requests that it makes (so that a slow machine changes
 * nothing), and a random time within it; then kills. Step 0 is its start.
 */
async function killAtRandom(
  scene: Scene,
  worker: WorkerProcess,
  stepMs: number,
  random: () => number,
): Promise<void> {
  const done = roundsIn(scene.fake.requests.at(-1)?.body ?? { messages: [] });
  const steps = Math.floor(random() * (STEPS + 2 - done));
  const target = scene.fake.requests.length + steps;
  while (scene.fake.requests.length < target && worker.child.exitCode === null) await sleep(2);
  await sleep(random() * stepMs * (steps === 0 ? 2 : 1));
  worker.child.kill('SIGKILL');
}

/** Runs the job of one seed: killed once, and with one chance in three again and again while it resumes. */
export async function killAndResume(
  t: TestContext,
  { seed, provider, stepMs }: KillRun,
): Promise<KillReport> {
  const random = randomFrom(seed);
  const scene = await setScene(t, provider, script);
  writeFileSync(join(scene.home, 'list'), 'end\n');
  const told: Told = { prompts: [], events: [] };
  const wanted = 1 + (random() < 1 / 3 ? 1 + Math.floor(random() * 2) : 0);
  const where = `seed ${seed} (${provider})`;
  let kills = 0;
  for (let process = 0; process <= wanted; process += 1) {
    const prompt = `prompt ${process} of seed ${seed}`;
    const worker = scene.start({ prompt });
    if (process < wanted) await killAtRandom(scene, worker, stepMs, random);
    const end = await worker.ended;
    kills += end.signal === 'SIGKILL' ? 1 : 0;
    const events = seenBy(worker);
    if (events.some((event) => event.type === 'session')) told.prompts.push(prompt);
    told.events.push(...events);
    if (end.signal === null)
      assert.equal(terminal(end.events).type, 'done', `${where}: ${end.stdout.slice(-500)} ${end.stderr}`);
  }
  const interrupted = checkWork(scene, told, where);
  const torn = checkLog(scene, told, kills, where);
  await scene.fake.stop();
  return { kills, torn, interrupted };
}

/** How long an undisturbed run takes here and now, from start to end. */
export async function measureSpan(t: TestContext): Promise<number> {
  buildBundle();
  const scene = await setScene(t, 'file', script);
  writeFileSync(join(scene.home, 'list'), 'end\n');
  const began = Date.now();
  const end = await scene.run({ prompt: 'measure' });
  assert.equal(terminal(end.events).type, 'done', end.stdout);
  return Date.now() - began;
}

/** Runs the seeds `from` to `to`, `width` at a time, the two providers by turns; sums up. */
export async function killManyTimes(
  t: TestContext,
  { from, runs, width }: { from: number; runs: number; width: number },
): Promise<KillReport> {
  const stepMs = (await measureSpan(t)) / (STEPS + 1);
  const sum = { kills: 0, torn: 0, interrupted: 0 };
  let next = from;
  const work = async (): Promise<void> => {
    while (next < from + runs) {
      const seed = next;
      next += 1;
      const report = await killAndResume(t, { seed, provider: seed % 2 === 0 ? 'fd' : 'file', stepMs });
      for (const name of ['kills', 'torn', 'interrupted'] as const) sum[name] += report[name];
    }
  };
  await Promise.all(Array.from({ length: width }, work));
  return sum;
}
