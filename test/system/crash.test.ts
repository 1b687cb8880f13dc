// Deaths of the daemon and of the spawner while jobs run: nothing is lost, doubled or left running.
import assert from 'node:assert/strict';
import { spawnSync } from 'node:child_process';
import { after, before, test } from 'node:test';
import { setTimeout as sleep } from 'node:timers/promises';
import { contentChunk, type FakeOpenAI, startFakeOpenAI } from '../../worker/index.ts';
import { endOf, startDaemon, type TestDaemon } from '../support/daemon.ts';
import { cleanState } from './leftovers.ts';
import { disorder, Follower } from './streams.ts';

let daemon: TestDaemon;
let model: FakeOpenAI;
let answering: () => void = () => {};

before(async () => {
  model = await startFakeOpenAI(async () => {
    await new Promise<void>((resolve) => {
      answering = resolve;
    });
    return { sse: [contentChunk('late but here')] };
  });
  daemon = await startDaemon({ instance: `crash-${process.pid}`, env: { DJINN_API_BASE: model.baseUrl } });
});

after(async () => {
  answering();
  assert.equal(await daemon.close(), 0);
  await model.stop();
  assert.deepEqual(cleanState(daemon), []);
});

/** Tokens with pauses, about `seconds` long. */
const ticking = (seconds: number) => {
  const steps = Array.from({ length: seconds * 5 }, (_, index) => [
    { say: `${index} ` },
    { sleepMs: 200 },
  ]).flat();
  return { prompt: JSON.stringify({ steps }) };
};

async function until(what: string, condition: () => boolean): Promise<void> {
  for (let waited = 0; !condition(); waited += 20) {
    if (waited > 30_000) throw new Error(`waited in vain until ${what}`);
    await sleep(20);
  }
}

test('kill -9 djinnd: three streaming jobs and one that waits for its model go on, each event once', async () => {
  const scripted = await daemon.tenant('streaming', '--engine', 'scripted', '--max-running', '8');
  const djinn = await daemon.tenant('waiting');
  const clients = [1, 2, 3].map(() => new Follower(daemon.url, scripted));
  const waiting = new Follower(daemon.url, djinn);
  const reading = [...clients.map((client) => client.post(ticking(6))), waiting.post({ prompt: 'hello' })];
  await until('all stream', () => clients.every(({ lines }) => lines.some(({ type }) => type === 'token')));
  await until('the model is asked', () => model.requests.length > 0);

  const before = await daemon.processOf('serve');
  process.kill(before, 'SIGKILL');
  await Promise.all(reading);
  assert.ok(
    clients.every(({ lines }) => !lines.some(({ type }) => type === 'end')),
    'killed in the middle',
  );
  await daemon.untilReady();
  assert.notEqual(await daemon.processOf('serve'), before);

  const again = [...clients, waiting].map((client) => client.attach());
  // The worker repeats its request to the gateway that came back.
  await until('the model is asked again', () => model.requests.length > 1);
  answering();
  await Promise.all(again);
  for (const client of [...clients, waiting]) {
    assert.equal(disorder(client.lines), null);
    assert.equal(endOf(client.lines).outcome, 'ok');
    assert.ok(
      client.lines.every(({ attempt }) => attempt <= 1),
      'no attempt was lost',
    );
  }
  for (const { lines } of clients) {
    const tokens = lines.filter(({ type }) => type === 'token').map(({ text }) => text);
    assert.deepEqual(
      tokens,
      Array.from({ length: 30 }, (_, index) => `${index} `),
    );
  }
});

test('kill -9 the spawner: each job says retrying, runs once more and has one end; nothing of the attempt survives', async () => {
  const key = await daemon.tenant('twice', '--engine', 'scripted', '--max-running', '8');
  const marker = `600.${process.pid}`;
  const left = () => spawnSync('pgrep', ['-fc', `sleep ${marker}`], { encoding: 'utf8' }).stdout.trim();
  const steps = [{ spawnDetached: { argv: ['sleep', marker] } }, { say: 'a' }, { sleepMs: 2500 }];
  const body = { prompt: JSON.stringify({ steps }) };
  const clients = [1, 2, 3].map(() => new Follower(daemon.url, key));
  const reading = clients.map((client) => client.post(body));
  await until('all run', () => clients.every(({ lines }) => lines.some(({ type }) => type === 'token')));

  assert.equal(left(), '3');
  process.kill(await daemon.processOf('spawner'), 'SIGKILL');
  await until('all are tried again', () =>
    clients.every(({ lines }) => lines.some(({ attempt }) => attempt === 2)),
  );
  assert.ok(Number(left()) <= 3, `${left()} processes: those of the first attempt still run`);
  await Promise.all(reading);
  assert.equal(left(), '0');
  for (const { lines } of clients) {
    assert.equal(disorder(lines), null);
    assert.equal(endOf(lines).outcome, 'ok');
    assert.equal(lines.at(-1)?.attempt, 2);
    const states = lines.filter(({ type }) => type === 'job').map(({ state }) => state);
    assert.deepEqual(states, ['queued', 'starting', 'running', 'lost', 'retrying', 'starting', 'running']);
  }
});
