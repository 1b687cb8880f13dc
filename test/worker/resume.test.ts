// A killed run goes on, whoever keeps its log.
import assert from 'node:assert/strict';
import { existsSync, mkdirSync, readFileSync, renameSync, truncateSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';
import { contentChunk, deltaChunk, toolCallChunk } from '../../worker/index.ts';
import { type Scene, setScene, testBoth } from './providers.ts';
import { makeFolder, terminal, type WorkerEnd, type WorkerProcess } from './worker-process.ts';

async function until(what: string, holds: () => boolean): Promise<void> {
  for (let tries = 0; tries < 1000; tries += 1) {
    if (holds()) return;
    await sleep(20);
  }
  throw new Error(`never: ${what}`);
}

const lines = (path: string): number =>
  existsSync(path) ? readFileSync(path, 'utf8').split('\n').length - 1 : 0;
const kill = async (worker: WorkerProcess): Promise<void> => {
  worker.child.kill('SIGKILL');
  await worker.ended;
};
const lastBody = (
  scene: Scene,
): { role: string; content: string; tool_call_id?: string; tool_calls?: unknown }[] =>
  scene.fake.requests.at(-1)?.body.messages;
const isDone = (end: WorkerEnd): boolean => {
  const last = terminal(end.events);
  assert.equal(last.type, 'done', JSON.stringify(last));
  return end.code === 0;
};
const accepted = (scene: Scene): boolean =>
  scene.fake.requests.every((request) => request.problems.length === 0);

testBoth('a session goes on with all that was said, and says that it does', async (t, provider) => {
  const scene = await setScene(t, provider, [{ sse: [contentChunk('one')] }, { sse: [contentChunk('two')] }]);
  assert.ok(isDone(await scene.run({ prompt: 'first' })));
  const second = await scene.run({ prompt: 'second' });
  assert.ok(isDone(second));
  assert.partialDeepStrictEqual(second.events[0], {
    type: 'session',
    sessionId: 's',
    resumed: true,
    engine: 'djinn',
    model: 'deepseek-chat',
  });
  assert.deepEqual(
    lastBody(scene)
      .slice(1)
      .map((message) => `${message.role}: ${message.content}`),
    ['user: first', 'assistant: one', 'user: second'],
  );
});

testBoth(
  'C038: a command during which the worker was killed is not run again, and the round goes on',
  async (t, provider) => {
    const scene = await setScene(t, provider, ({ index }) =>
      index === 0
        ? { sse: [toolCallChunk('bash', { command: `echo x >> ran; exec sleep 60` })] }
        : { sse: [contentChunk('ok')] },
    );
    const first = scene.start({ prompt: 'go' });
    await until('the command runs', () => lines(join(scene.home, 'ran')) === 1);
    await kill(first);
    const second = await scene.run({ prompt: 'go on' });
    assert.ok(isDone(second) && accepted(scene));
    const result = lastBody(scene).find((message) => message.role === 'tool');
    assert.match(result?.content ?? '', /interrupted.*may have run in part/);
    assert.equal(lines(join(scene.home, 'ran')), 1);
    assert.equal(lastBody(scene).at(-1)?.content, 'go on');
  },
);

testBoth('an interrupted round is finished without a new prompt too', async (t, provider) => {
  const scene = await setScene(t, provider, ({ index }) =>
    index === 0
      ? { sse: [toolCallChunk('bash', { command: 'echo x >> ran; exec sleep 60' })] }
      : { sse: [contentChunk('ok')] },
  );
  const first = scene.start({ prompt: 'go' });
  await until('the command runs', () => lines(join(scene.home, 'ran')) === 1);
  await kill(first);
  assert.ok(isDone(await scene.run()) && accepted(scene));
  const again = await scene.run();
  const last = terminal(again.events);
  assert.deepEqual(last.type === 'done' ? [last.turns, last.text] : last, [0, 'ok']);
});

testBoth('`--redo always` runs an interrupted command again', async (t, provider) => {
  const scene = await setScene(t, provider, ({ index }) =>
    index === 0
      ? { sse: [toolCallChunk('bash', { command: 'echo x >> ran; [ -e go ] || exec sleep 60' })] }
      : { sse: [contentChunk('ok')] },
  );
  const first = scene.start({ prompt: 'go' });
  await until('the command runs', () => lines(join(scene.home, 'ran')) === 1);
  await kill(first);
  writeFileSync(join(scene.home, 'go'), '');
  assert.ok(isDone(await scene.run({ redo: 'always' })));
  assert.equal(lines(join(scene.home, 'ran')), 2);
});

/** Cuts the log after the nth record that the test accepts, as a kill at that moment would have left it. */
function cutLog(scene: Scene, accept: (type: string) => boolean, nth = 1): void {
  const path = scene.log;
  const text = readFileSync(path, 'utf8');
  let offset = 0;
  let end = 0;
  let seen = 0;
  for (const line of text.split('\n').slice(0, -1)) {
    offset += Buffer.byteLength(line) + 1;
    if (accept((JSON.parse(line) as { type: string }).type)) {
      seen += 1;
      if (seen === nth) end = offset;
    }
  }
  truncateSync(path, end);
}

testBoth(
  'after a kill in the middle of a write the file decides: as before, as intended, or neither',
  async (t, provider) => {
    for (const [now, expected, final] of [
      ['old', /./, 'new'],
      ['new', /was written/, 'new'],
      ['other', /neither as it was nor as it was to be/, 'other'],
    ] as const) {
      const scene = await setScene(t, provider, ({ index }) =>
        index === 0
          ? { sse: [toolCallChunk('write_file', { path: 'f', content: 'new' })] }
          : { sse: [contentChunk('ok')] },
      );
      const file = join(scene.home, 'f');
      writeFileSync(file, 'old');
      assert.ok(isDone(await scene.run({ prompt: 'go' })));
      cutLog(scene, (type) => type === 'tool_started');
      writeFileSync(file, now);
      assert.ok(isDone(await scene.run()) && accepted(scene));
      const result = lastBody(scene).find((message) => message.role === 'tool');
      assert.match(result?.content ?? '', expected);
      assert.equal(readFileSync(file, 'utf8'), final);
    }
  },
);

testBoth('a call that had not begun is run, and a read is run again', async (t, provider) => {
  for (const kept of ['assistant', 'tool_started']) {
    const scene = await setScene(t, provider, ({ index }) =>
      index === 0 ? { sse: [toolCallChunk('read_file', { path: 'f' })] } : { sse: [contentChunk('ok')] },
    );
    writeFileSync(join(scene.home, 'f'), 'first\n');
    assert.ok(isDone(await scene.run({ prompt: 'go' })));
    cutLog(scene, (type) => type === kept);
    writeFileSync(join(scene.home, 'f'), 'second\n');
    assert.ok(isDone(await scene.run({ prompt: 'again' })) && accepted(scene));
    const result = lastBody(scene).find((message) => message.role === 'tool');
    assert.match(result?.content ?? '', /second/);
  }
});

testBoth(
  'C040: a call whose arguments were still streaming is not in the next request',
  async (t, provider) => {
    const half = deltaChunk({
      tool_calls: [{ index: 0, id: 'a', function: { name: 'bash', arguments: '{"comm' } }],
    });
    const scene = await setScene(t, provider, ({ index }) =>
      index === 0
        ? {
            raw: [`data: ${JSON.stringify(contentChunk('I will'))}\n\n`, `data: ${JSON.stringify(half)}\n\n`],
            hold: true,
          }
        : { sse: [contentChunk('ok')] },
    );
    const first = scene.start({ prompt: 'go' });
    await first.seen((event) => event.type === 'token');
    await kill(first);
    assert.ok(isDone(await scene.run({ prompt: 'go on' })) && accepted(scene));
    assert.deepEqual(
      lastBody(scene)
        .slice(1)
        .map((message) => message.role),
      ['user', 'user'],
    );
  },
);

testBoth('C043: output cut inside a surrogate pair reaches the model well-formed', async (t, provider) => {
  const scene = await setScene(t, provider, ({ index }) =>
    index === 0
      ? {
          sse: [
            toolCallChunk('bash', {
              command: `node -e 'process.stdout.write("x".repeat(49999) + "🏷".repeat(30000))'`,
            }),
          ],
        }
      : { sse: [contentChunk('ok')] },
  );
  assert.ok(isDone(await scene.run({ prompt: 'go' })) && accepted(scene));
});

testBoth(
  'C043: half a pair in the arguments of a call goes back well-formed, also after a resume',
  async (t, provider) => {
    // As an escape in the text of the arguments, and as the half itself.
    for (const args of ['{"command":"echo \\ud83d"}', '{"command":"echo \ud83d"}']) {
      const scene = await setScene(t, provider, ({ index }) =>
        index === 0 ? { sse: [toolCallChunk('bash', args)] } : { sse: [contentChunk('ok')] },
      );
      assert.ok(isDone(await scene.run({ prompt: 'go' })));
      assert.ok(isDone(await scene.run({ prompt: 'on' })) && accepted(scene));
      assert.equal(scene.fake.requests.length, 3);
      assert.ok(
        !readFileSync(scene.log, 'utf8').includes('\\ud83d"}",'),
        'no half in the log as a character',
      );
    }
  },
);

testBoth('`--redo never` runs nothing again, not even a read', async (t, provider) => {
  const scene = await setScene(t, provider, ({ index }) =>
    index === 0 ? { sse: [toolCallChunk('read_file', { path: 'f' })] } : { sse: [contentChunk('ok')] },
  );
  writeFileSync(join(scene.home, 'f'), 'secret\n');
  assert.ok(isDone(await scene.run({ prompt: 'go' })));
  cutLog(scene, (type) => type === 'tool_started');
  assert.ok(isDone(await scene.run({ redo: 'never' })) && accepted(scene));
  const result = lastBody(scene).find((message) => message.role === 'tool');
  assert.match(result?.content ?? '', /interrupted.*not run again/);
});

testBoth('whoever has seen the session event can rely on the prompt', async (t, provider) => {
  const scene = await setScene(t, provider, [{ sse: [contentChunk('ok')] }]);
  // Dies as soon as its first line is out.
  const deadly = join(scene.home, 'deadly.cjs');
  writeFileSync(
    deadly,
    `const fs = require('node:fs');
     const { writeSync } = fs;
     fs.writeSync = (fd, ...rest) => {
       const count = writeSync(fd, ...rest);
       if (fd === 1) process.kill(process.pid, 'SIGKILL');
       return count;
     };`,
  );
  const first = scene.start({ prompt: 'do not lose me', env: { NODE_OPTIONS: `--require ${deadly}` } });
  await first.ended;
  assert.match(first.stdout(), /^\{"type":"session"[^\n]*\n$/);
  assert.ok(isDone(await scene.run()) && accepted(scene));
  assert.deepEqual(
    lastBody(scene)
      .slice(1)
      .map((message) => message.content),
    ['do not lose me'],
  );
});

testBoth(
  'a prompt that was logged before the open round is finished comes after its results',
  async (t, provider) => {
    const scene = await setScene(t, provider, ({ index }) =>
      index === 0
        ? { sse: [toolCallChunk('bash', { command: 'echo x >> ran; exec sleep 60' })] }
        : { sse: [contentChunk('ok')] },
    );
    const first = scene.start({ prompt: 'go' });
    await until('the command runs', () => lines(join(scene.home, 'ran')) === 1);
    await kill(first);
    assert.ok(isDone(await scene.run({ prompt: 'go on' })));
    cutLog(scene, (type) => type === 'user', 2);
    assert.ok(isDone(await scene.run()) && accepted(scene));
    assert.deepEqual(
      lastBody(scene)
        .slice(1)
        .map((message) => message.role),
      ['user', 'assistant', 'tool', 'user'],
    );
    assert.equal(lines(join(scene.home, 'ran')), 1);
  },
);

testBoth(
  'in another folder the model is told of it, and a write is judged by the file there',
  async (t, provider) => {
    for (const [there, expected, final] of [
      ['old', /Replaced f/, 'new'],
      ['new', /was written/, 'new'],
      ['other', /resumed in another folder/, 'other'],
    ] as const) {
      const scene = await setScene(t, provider, ({ index }) =>
        index === 0
          ? { sse: [toolCallChunk('write_file', { path: 'f', content: 'new' })] }
          : { sse: [contentChunk('ok')] },
      );
      writeFileSync(join(scene.home, 'f'), 'old');
      assert.ok(isDone(await scene.run({ prompt: 'go' })));
      cutLog(scene, (type) => type === 'tool_started');
      const moved = makeFolder(t);
      writeFileSync(join(moved, 'f'), there);
      assert.ok(isDone(await scene.run({ cwd: moved })) && accepted(scene));
      const [system, ...messages] = lastBody(scene);
      assert.ok(system?.content.includes(`Your working directory is ${moved}.`));
      assert.match(messages.find((message) => message.role === 'tool')?.content ?? '', expected);
      assert.equal(readFileSync(join(moved, 'f'), 'utf8'), final);
    }
  },
);

testBoth('a folder that was moved is resumed where it is now', async (t, provider) => {
  const scene = await setScene(t, provider, ({ index }) =>
    index === 0 ? { sse: [toolCallChunk('read_file', { path: 'f' })] } : { sse: [contentChunk('ok')] },
  );
  const place = join(scene.home, 'place');
  mkdirSync(place);
  writeFileSync(join(place, 'f'), 'text\n');
  assert.ok(isDone(await scene.run({ prompt: 'go', cwd: place })));
  cutLog(scene, (type) => type === 'assistant');
  const moved = join(scene.home, 'moved');
  renameSync(place, moved);
  assert.ok(isDone(await scene.run({ cwd: moved })) && accepted(scene));
  assert.match(lastBody(scene).find((message) => message.role === 'tool')?.content ?? '', /text/);
});
