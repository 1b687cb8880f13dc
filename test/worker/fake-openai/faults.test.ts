import assert from 'node:assert/strict';
import { type TestContext, test } from 'node:test';
import { createFaults } from '../../../worker/fake-openai/faults.ts';
import {
  contentChunk,
  FAULT_KINDS,
  type FaultKind,
  type FaultOptions,
  type Tool,
  toolCallChunk,
} from '../../../worker/index.ts';
import { type Ran, runHere, startFake } from '../scripted-run.ts';

const plan = (options: FaultOptions, length: number): (FaultKind | null)[] => {
  const next = createFaults(options);
  return Array.from({ length }, next);
};

test('a seed gives the same faults every time, another seed others, at about the rate that was asked for', () => {
  const first = plan({ seed: 7 }, 200);
  assert.deepEqual(plan({ seed: 7 }, 200), first);
  assert.notDeepEqual(plan({ seed: 8 }, 200), first);
  const hits = first.filter((kind) => kind !== null);
  assert.ok(hits.length > 30 && hits.length < 80, `${hits.length} of 200`);
  assert.deepEqual(new Set(hits), new Set(FAULT_KINDS));
  assert.ok(plan({ seed: 7, rate: 0 }, 200).every((kind) => kind === null));
  assert.deepEqual(
    new Set(plan({ seed: 7, rate: 1, kinds: ['reset'], inARow: 200 }, 200)),
    new Set(['reset']),
  );
});

test('never more faults in a row than was asked for', () => {
  for (let seed = 0; seed < 50; seed += 1) {
    const text = plan({ seed, rate: 0.9, inARow: 2 }, 100).map((kind) => (kind === null ? '.' : 'x'));
    assert.doesNotMatch(text.join(''), /xxx/);
  }
});

const STEPS = 6;

/** A job of six tool rounds; `ran` counts how often the tool ran for each step. */
async function job(t: TestContext, faults: FaultOptions): Promise<Ran & { ran: number[]; met: string[] }> {
  const ran: number[] = [];
  const mark: Tool = {
    name: 'mark',
    description: 'marks a step',
    parameters: { type: 'object', properties: { step: { type: 'integer' } } },
    effect: 'exec',
    run: async ({ step }) => {
      ran.push(step as number);
      return { content: `step ${String(step)} marked`, isError: false };
    },
  };
  const fake = await startFake(
    t,
    ({ step }) => ({
      sse: step < STEPS ? [contentChunk('on '), toolCallChunk('mark', { step })] : [contentChunk('all done')],
    }),
    { faults },
  );
  const end = await runHere(t, fake.baseUrl, { tools: [mark], idleTimeoutMs: 2000 });
  assert.deepEqual(
    fake.requests.filter((request) => request.problems.length > 0),
    [],
  );
  return { ...end, ran, met: fake.requests.map((request) => request.fault ?? '.') };
}

test('whatever mix of faults a seed draws, the job is done: each step once, nothing of a failed answer kept', async (t) => {
  const seeds = Array.from({ length: 24 }, (_, index) => 1000 + index);
  const ends = await Promise.all(seeds.map((seed) => job(t, { seed, rate: 0.4 })));
  for (const [index, end] of ends.entries()) {
    const told = `seed ${seeds[index]}: ${end.met.join(' ')}`;
    assert.equal(end.outcome, 'all done', told);
    assert.deepEqual(end.ran, [0, 1, 2, 3, 4, 5], told);
    const answers = end.records.filter((line) => line.type === 'assistant').map((line) => line.data.text);
    assert.deepEqual(answers, [...Array(STEPS).fill('on '), 'all done'], told);
  }
  assert.ok(ends.some((end) => end.met.some((kind) => kind !== '.')));
});

test('a server with nothing but faults of one kind ends the run with the code of that kind', async (t) => {
  const expected: Record<FaultKind, string> = {
    rate_limit: 'model_rate_limit',
    server_error: 'model_server',
    reset: 'model_network',
    cut: 'model_early_end',
    early_end: 'model_early_end',
    stall: 'model_stall',
    empty: 'model_empty',
    malformed: 'model_malformed',
  };
  await Promise.all(
    FAULT_KINDS.map(async (kind) => {
      const end = await job(t, { seed: 1, rate: 1, kinds: [kind], inARow: 1000 });
      assert.equal(end.outcome, expected[kind]);
      assert.deepEqual([end.met.length, end.ran], [4, []]);
    }),
  );
});
