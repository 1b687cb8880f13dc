import assert from 'node:assert/strict';
import { test } from 'node:test';
import type { Cooling } from '../../../worker/models/cooling.ts';
import { type FailureKind, ModelError } from '../../../worker/models/errors.ts';
import { askPool, beginTurn, type PoolPorts, RETRIES_PER_TURN } from '../../../worker/models/pool.ts';
import type { ModelEntry } from '../../../worker/protocol.ts';

const model = (id: string, more: Partial<ModelEntry> = {}): ModelEntry => ({
  id,
  baseUrl: 'http://h/v1',
  ...more,
});

interface Scripted {
  asked: string[];
  waitsMs: number[];
  moves: string[];
  outcome: string;
}

/** Runs the pool against a script of failures per model; the clock moves by the waits. */
async function ask(
  models: ModelEntry[],
  script: (id: string, count: number) => ModelError | null,
  cooling: Cooling = new Map(),
  clock = { ms: 0 },
): Promise<Scripted> {
  const result: Scripted = { asked: [], waitsMs: [], moves: [], outcome: '' };
  try {
    const ports: PoolPorts = {
      cooling,
      now: () => clock.ms,
      async sleep(ms) {
        clock.ms += ms;
        if (ms > 0) result.waitsMs.push(ms);
      },
      onFallback: (from, to, failure) => void result.moves.push(`${from.id}>${to.id} ${failure.kind}`),
    };
    const { entry } = await askPool(beginTurn(models, ports), ports, async (asked) => {
      result.asked.push(asked.id);
      const failure = script(asked.id, result.asked.filter((id) => id === asked.id).length);
      if (failure !== null) throw failure;
      return 'answer';
    });
    result.outcome = entry.id;
  } catch (error) {
    result.outcome = `${(error as ModelError).kind}: ${(error as Error).message}`;
  }
  return result;
}
const fails =
  (kind: FailureKind, more: { retryAfterMs?: number; answered?: boolean } = {}) =>
  (id: string): ModelError =>
    new ModelError(kind, `${id} failed`, more);
const only = (id: string, failure: (id: string) => ModelError) => (asked: string) =>
  asked === id ? failure(asked) : null;

test('a failing request costs at most the retry budget, with growing waits', async () => {
  for (const kind of ['server', 'network', 'empty', 'early_end', 'stall'] as const) {
    const result = await ask([model('m1')], fails(kind));
    assert.equal(result.asked.length, 1 + RETRIES_PER_TURN);
    assert.deepEqual(result.waitsMs, [500, 1000, 2000]);
    assert.equal(result.outcome, `${kind}: m1: m1 failed`);
  }
});

test('with fallbacks the budget is one for all, and the error names each model', async () => {
  const result = await ask([model('m1'), model('m2')], fails('server'));
  assert.equal(result.asked.length, 2 + RETRIES_PER_TURN);
  assert.deepEqual(result.asked, ['m1', 'm2', 'm1', 'm2', 'm1']);
  assert.equal(result.outcome, 'server: all models failed: m1: m1 failed; m2: m2 failed');
});

test('C023: quota, a wrong key and an unknown model move on at once and are not asked again', async () => {
  for (const kind of ['quota', 'auth', 'unknown_model', 'not_api', 'content_filter'] as const) {
    const alone = await ask([model('m1')], fails(kind));
    assert.deepEqual([alone.asked, alone.waitsMs], [['m1'], []]);
    const two = await ask([model('m1'), model('m2')], only('m1', fails(kind)));
    assert.deepEqual([two.asked, two.waitsMs, two.outcome], [['m1', 'm2'], [], 'm2']);
    assert.deepEqual(two.moves, [`m1>m2 ${kind}`]);
  }
});

test('a bad request, an overflow and a spent budget are not tried on other models', async () => {
  for (const kind of ['bad_request', 'overflow', 'budget', 'cancelled'] as const) {
    const result = await ask([model('m1'), model('m2')], fails(kind));
    assert.deepEqual(result.asked, ['m1']);
  }
});

test('C022: a short Retry-After waits for the same model, a long one moves on, alone it is an ordinary wait', async () => {
  const short = await ask([model('m1'), model('m2')], (_, count) =>
    count === 1 ? fails('rate_limit', { retryAfterMs: 3000 })('m1') : null,
  );
  assert.deepEqual([short.asked, short.waitsMs], [['m1', 'm1'], [3000]]);
  const long = { retryAfterMs: 99_999_999_000 };
  const moved = await ask([model('m1'), model('m2')], only('m1', fails('rate_limit', long)));
  assert.deepEqual([moved.asked, moved.waitsMs], [['m1', 'm2'], []]);
  const alone = await ask([model('m1')], (_, count) =>
    count === 1 ? fails('rate_limit', long)('m1') : null,
  );
  assert.deepEqual([alone.asked, alone.waitsMs], [['m1', 'm1'], [500]]);
});

test('C025: a dead model is left alone while it cools down and tried again afterwards', async () => {
  for (const kind of ['quota', 'auth', 'server', 'network'] as const) {
    const cooling: Cooling = new Map();
    const clock = { ms: 0 };
    let first = 0;
    for (let job = 0; job < 10; job += 1) {
      const result = await ask([model('m1'), model('m2')], only('m1', fails(kind)), cooling, clock);
      assert.equal(result.outcome, 'm2');
      first += result.asked.filter((id) => id === 'm1').length;
    }
    assert.equal(first, 1);
    clock.ms += 700_000;
    const later = await ask([model('m1'), model('m2')], only('m1', fails(kind)), cooling, clock);
    assert.deepEqual(later.asked, ['m1', 'm2']);
  }
});

test('a gateway that is away is asked again for the same model, cools nothing and ends after two minutes', async () => {
  const cooling = new Map<string, number>();
  const models = [model('m1', { gateway: true }), model('m2', { gateway: true })];
  const back = await ask(models, (_, count) => (count <= 5 ? fails('gateway')('m1') : null), cooling);
  assert.deepEqual([new Set(back.asked), back.outcome], [new Set(['m1']), 'm1']);
  assert.deepEqual(back.moves, ['m1>m1 gateway']);
  assert.equal(cooling.size, 0);
  const clock = { ms: 0 };
  const gone = await ask(models, fails('gateway'), cooling, clock);
  assert.equal(gone.outcome, 'gateway: m1 failed');
  assert.ok(clock.ms >= 120_000 && clock.ms < 125_000, `${clock.ms}`);
});

test('a gateway that answers and breaks again and again is the failure of the model behind it', async () => {
  const models = [model('m1', { gateway: true }), model('m2', { gateway: true })];
  const breaks = fails('gateway', { answered: true });
  const moved = await ask(models, only('m1', breaks));
  assert.deepEqual(
    [moved.asked, moved.moves],
    [
      ['m1', 'm1', 'm2'],
      ['m1>m1 gateway', 'm1>m2 network'],
    ],
  );
  const alone = await ask([model('m1', { gateway: true })], breaks);
  assert.equal(alone.asked.length, 2 + RETRIES_PER_TURN);
});
