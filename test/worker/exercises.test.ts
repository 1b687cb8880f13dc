// Real work: small programming exercises that a scripted model solves with the tools of a real worker, with a failing
// test run, a refused edit, and a kill, a 429 or a compaction on the way.
import assert from 'node:assert/strict';
import { execFileSync } from 'node:child_process';
import { mkdirSync, readdirSync, readFileSync, writeFileSync } from 'node:fs';
import { dirname, join } from 'node:path';
import { describe, type TestContext, test } from 'node:test';
import {
  contentChunk,
  type FakeOpenAI,
  type FakeRequest,
  httpError,
  type Reply,
  startFakeOpenAI,
  toolCallChunk,
  type WorkerEvent,
} from '../../worker/index.ts';
import type { Exercise } from './exercises/exercise.ts';
import { makeFolder, startWorker, terminal, type WorkerEnd } from './worker-process.ts';

const folder = new URL('exercises/', import.meta.url);
/** So small that the long file of such an exercise does not fit beside the rest. */
const SMALL_WINDOW = { DJINN_INPUT_LIMIT: '9000' };

/** The system's own interpreters: a version manager's stand-ins take a second each. */
const PATH = `${dirname(process.execPath)}:/usr/local/bin:/usr/bin:/bin`;

/** The model: goes on after the latest result that it sees, and makes an interrupted command again. */
function createModel({ steps, fault }: Exercise): (request: FakeRequest) => Reply {
  let next = 0;
  let repeats = 0;
  let isLimited = fault === 'rate_limit';
  return ({ body }) => {
    if (body.tools === undefined)
      return { sse: [contentChunk('Read the long file, then go on as planned.')] };
    const last = body.messages.findLast((message: { role: string }) => message.role === 'tool');
    if (last !== undefined) {
      next = Number(/^step_(\d+)/.exec(last.tool_call_id)?.[1]) + 1;
      if (/^interrupted: .*command/.test(last.content)) next -= 1;
    }
    if (isLimited && next === Math.floor(steps.length / 2)) {
      isLimited = false;
      return httpError(429, { code: 'rate_limit_exceeded' }, { 'retry-after-ms': '50' });
    }
    const step = steps[next];
    if (step === undefined) return { sse: [contentChunk('The tests pass.')] };
    repeats += 1;
    return { sse: [toolCallChunk(...step, { id: `step_${next}_${repeats}` })] };
  };
}

/** Runs to the end; with fault `kill` the worker dies at the given call and another one finishes its session. */
async function solve(t: TestContext, exercise: Exercise, fake: FakeOpenAI, cwd: string): Promise<WorkerEnd> {
  const home = makeFolder(t);
  const options = {
    home,
    baseUrl: fake.baseUrl,
    env: {
      PATH,
      ...(exercise.fault === 'compaction' ? SMALL_WINDOW : {}),
    },
  };
  const args = ['--cwd', cwd, '--session-id', 's'];
  const worker = startWorker(t, ['-p', exercise.prompt, ...args], options);
  if (exercise.fault !== 'kill') return worker.ended;
  const deadly = `step_${exercise.steps.length - 2 - (exercise.prompt.length % 3)}_`;
  await worker.seen((event) => event.type === 'tool_call' && event.id.startsWith(deadly));
  worker.child.kill('SIGKILL');
  const killed = await worker.ended;
  const rest = await startWorker(t, args, options).ended;
  const before = killed.stdout
    .slice(0, killed.stdout.lastIndexOf('\n') + 1)
    .split('\n')
    .slice(0, -1);
  return { ...rest, events: [...before.map((line) => JSON.parse(line) as WorkerEvent), ...rest.events] };
}

const passes = (command: string, cwd: string): boolean => {
  try {
    execFileSync('bash', ['-c', command], { cwd, stdio: 'ignore', env: { PATH } });
    return true;
  } catch {
    return false;
  }
};

const names = readdirSync(folder).filter((name) => name !== 'exercise.ts');

test('there are at least 20 exercises, in two languages, with each fault at least five times', async () => {
  const all = await Promise.all(
    names.map(async (name) => (await import(`${folder}${name}`)).exercise as Exercise),
  );
  assert.ok(all.length >= 20);
  for (const language of ['node ', 'python3 '])
    assert.ok(all.filter(({ tests }) => tests.startsWith(language)).length >= 10);
  for (const fault of ['kill', 'rate_limit', 'compaction'])
    assert.ok(all.filter((one) => one.fault === fault).length >= 5);
});

describe('exercises', { concurrency: 2 }, () => {
  for (const name of names) {
    test(`the exercise ${name.replace('.ts', '')} is solved`, async (t) => {
      const { exercise } = (await import(`${folder}${name}`)) as { exercise: Exercise };
      const cwd = makeFolder(t);
      for (const [path, content] of Object.entries(exercise.files)) {
        mkdirSync(dirname(join(cwd, path)), { recursive: true });
        writeFileSync(join(cwd, path), content);
      }
      const fake = await startFakeOpenAI(createModel(exercise));
      t.after(() => fake.stop());
      const end = await solve(t, exercise, fake, cwd);
      const last = terminal(end.events);
      assert.equal(last.type === 'done' ? last.text : last, 'The tests pass.', end.stderr);
      assert.deepEqual(
        fake.requests.flatMap((request) => request.problems),
        [],
      );

      const results = end.events.filter((event) => event.type === 'tool_result');
      const runs = results.filter(
        (event) => event.name === 'bash' && !event.content.startsWith('interrupted'),
      );
      assert.ok(
        runs.some((event) => event.isError),
        'a test run failed',
      );
      assert.equal(runs.at(-1)?.isError, false, 'the last test run passed');
      assert.ok(
        results.some((event) => event.name === 'edit_file' && event.isError),
        'an edit was refused',
      );
      const met = {
        kill: end.events.filter((event) => event.type === 'session').length === 2,
        rate_limit: end.events.some((event) => event.type === 'fallback' && event.reason === 'rate_limit'),
        compaction: end.events.some((event) => event.type === 'compact'),
      };
      assert.ok(met[exercise.fault], exercise.fault);

      assert.equal(passes(exercise.tests, cwd), true, 'the tests of the exercise pass');
      for (const [path, content] of Object.entries(exercise.files)) {
        if (path.startsWith('test')) assert.equal(readFileSync(join(cwd, path), 'utf8'), content);
      }
    });
  }
});
