import assert from 'node:assert/strict';
import { mkdirSync, readFileSync, statSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { type TestContext, test } from 'node:test';
import { contentChunk, httpError, type Reply, stall } from '../../../worker/index.ts';
import { beginProbe, coolDown, coolingKey, orderModels } from '../../../worker/models/cooling.ts';
import { openCoolingFile } from '../../../worker/models/cooling-file.ts';
import { ModelError } from '../../../worker/models/errors.ts';
import { doneText, runHere, startFake } from '../scripted-run.ts';
import { makeFolder, runWorker, type WorkerEnd } from '../worker-process.ts';

const m1 = { id: 'm1', baseUrl: 'http://h/v1?key=secret' };
const m2 = { id: 'm2', baseUrl: 'http://h/v1' };

/** Jobs as processes one after the other, all with one home. */
async function jobs(
  t: TestContext,
  count: number,
  home: string,
  env: Record<string, string>,
): Promise<WorkerEnd[]> {
  const ends: WorkerEnd[] = [];
  for (let job = 0; job < count; job += 1) ends.push(await runWorker(t, ['-p', 'hello'], { home, env }));
  return ends;
}
const movesFrom = (ends: WorkerEnd[], id: string): number =>
  ends.flatMap((end) => end.events).filter((one) => one.type === 'fallback' && one.from === id).length;

test('C025: over ten jobs, each a process, a dead first model is asked once while it cools down and once afterwards', async (t) => {
  const check = async (dead: Reply | null): Promise<void> => {
    const first = await startFake(t, [dead ?? {}]);
    const second = await startFake(t, [{ sse: [contentChunk('ok')] }]);
    const home = makeFolder(t);
    const fallbacks = [{ id: 'm2', baseUrl: second.baseUrl }];
    // Nobody listens where a server has been stopped.
    if (dead === null) await first.stop();
    const env = {
      DJINN_API_BASE: first.baseUrl,
      DJINN_MODEL: 'm1',
      DJINN_FALLBACKS: JSON.stringify(fallbacks),
    };
    const begun = Date.now();
    const ends = await jobs(t, 10, home, env);
    // On a slow machine the ten jobs outlast the window.
    const windows = 1 + Math.floor((Date.now() - begun) / 30_000);
    for (const end of ends) assert.equal(doneText(end), 'ok');
    const moves = movesFrom(ends, 'm1');
    assert.ok(moves >= 1 && moves <= windows, `${moves} in ${windows} windows`);
    const file = join(home, 'cooling.json');
    const key = coolingKey({ id: 'm1', baseUrl: first.baseUrl, apiKey: 'sk-test-canary-key' });
    assert.equal(statSync(file).mode & 0o777, 0o600);
    assert.ok(!readFileSync(file, 'utf8').includes('sk-test'));
    // The window is over: the next job tries it, and finds it dead still.
    writeFileSync(file, JSON.stringify({ [key]: Date.now() - 1 }));
    assert.equal(movesFrom(await jobs(t, 2, home, env), 'm1'), 1);
    if (dead !== null) assert.equal(first.requests.length, moves + 1);
  };
  await Promise.all([httpError(402), httpError(401), httpError(500), null].map(check));
});

test('a model that is well again is forgotten by the file', async (t) => {
  const fake = await startFake(t, [
    httpError(500),
    { sse: [contentChunk('m2')] },
    { sse: [contentChunk('m1')] },
  ]);
  const home = makeFolder(t);
  const coolingFile = join(home, 'new/cooling.json');
  const models = ['m1', 'm2'].map((id) => ({ id, baseUrl: fake.baseUrl }));
  assert.equal((await runHere(t, fake.baseUrl, { models, coolingFile })).outcome, 'm2');
  const key = coolingKey({ id: 'm1', baseUrl: fake.baseUrl });
  const kept = JSON.parse(readFileSync(coolingFile, 'utf8')) as Record<string, number>;
  assert.ok((kept[key] ?? 0) > Date.now() + 20_000);
  writeFileSync(coolingFile, JSON.stringify({ [key]: Date.now() - 5 }));
  assert.equal((await runHere(t, fake.baseUrl, { models, coolingFile })).outcome, 'm1');
  assert.equal(readFileSync(coolingFile, 'utf8'), '{}\n');
});

test('half-open: of the runs that find the time to be over, one tries the model and the others leave it alone', async (t) => {
  const dead = await startFake(t, [stall()]);
  const alive = await startFake(t, [{ sse: [contentChunk('ok')] }]);
  const coolingFile = join(makeFolder(t), 'cooling.json');
  writeFileSync(
    coolingFile,
    JSON.stringify({ [coolingKey({ id: 'm1', baseUrl: dead.baseUrl })]: Date.now() - 1 }),
  );
  const models = [
    { id: 'm1', baseUrl: dead.baseUrl },
    { id: 'm2', baseUrl: alive.baseUrl },
  ];
  const first = runHere(t, dead.baseUrl, { models, coolingFile, idleTimeoutMs: 1500 });
  while (dead.requests.length === 0) await new Promise((resolve) => setTimeout(resolve, 10));
  const others = await Promise.all(
    Array.from({ length: 5 }, () => runHere(t, dead.baseUrl, { models, coolingFile })),
  );
  assert.deepEqual(
    [...others, await first].map((one) => one.outcome),
    Array(6).fill('ok'),
  );
  assert.equal(dead.requests.length, 1);
});

test('a cooling file that is damaged, of another clock, or cannot be written only costs a request', (t) => {
  const dir = makeFolder(t);
  const now = 1_000_000_000;
  for (const text of [
    '',
    '{',
    '[]',
    'null',
    '{"k":"soon"}',
    JSON.stringify({ [coolingKey(m1)]: now + 86_400_000 }),
  ]) {
    const path = join(dir, 'cooling.json');
    writeFileSync(path, text);
    assert.deepEqual(
      orderModels(
        [m1, m2],
        openCoolingFile(path, () => now),
        now,
      ),
      [m1, m2],
      text,
    );
  }
  const folder = join(dir, 'is-a-folder');
  mkdirSync(folder);
  const cooling = openCoolingFile(folder, () => now);
  coolDown(m1, cooling, now, new ModelError('server', 'x'));
  assert.deepEqual(orderModels([m1, m2], cooling, now), [m2, m1]);
});

test('two processes that write do not undo each other, and a query with a key is not written', (t) => {
  const path = join(makeFolder(t), 'cooling.json');
  const [one, other] = [openCoolingFile(path, Date.now), openCoolingFile(path, Date.now)];
  coolDown(m1, one, Date.now(), new ModelError('quota', 'x'));
  coolDown(m2, other, Date.now(), new ModelError('server', 'x'));
  const kept = Object.keys(JSON.parse(readFileSync(path, 'utf8')) as object);
  assert.deepEqual(kept.sort(), [coolingKey(m1), coolingKey(m2)]);
  assert.match(kept.join(), /^http:\/\/h\/v1 m1 \w{8},http:\/\/h\/v1 m2 \w{8}$/);
});

test('how long a model is left alone: refusals longer than faults, what the server asks, never above ten minutes', () => {
  const coolMs = (failure: ModelError): number => {
    const cooling = new Map<string, number>();
    coolDown(m1, cooling, 0, failure);
    return cooling.get(coolingKey(m1)) ?? 0;
  };
  assert.equal(coolMs(new ModelError('server', 'x')), 30_000);
  assert.equal(coolMs(new ModelError('auth', 'x')), 300_000);
  assert.equal(coolMs(new ModelError('rate_limit', 'x', { retryAfterMs: 45_000 })), 45_000);
  assert.equal(coolMs(new ModelError('rate_limit', 'x', { retryAfterMs: 99_999_999_000 })), 600_000);
  const cooling = new Map<string, number>();
  beginProbe(m1, cooling, 0);
  assert.equal(cooling.size, 0, 'a model that never failed is not probed');
});

test("one key's empty quota leaves the same model alone for nobody else", () => {
  const cooling = new Map<string, number>();
  const [mine, yours] = [
    { ...m1, apiKey: 'sk-mine-0001' },
    { ...m1, apiKey: 'sk-yours-0002' },
  ];
  coolDown(mine, cooling, 0, new ModelError('quota', 'x'));
  assert.deepEqual(orderModels([mine, m2], cooling, 1), [m2, mine]);
  assert.deepEqual(orderModels([yours, m2], cooling, 1), [yours, m2]);
  assert.ok(![...cooling.keys()].join().includes('sk-mine'));
});
