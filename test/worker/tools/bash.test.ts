import assert from 'node:assert/strict';
import { execFileSync, spawnSync } from 'node:child_process';
import { existsSync, readdirSync, readlinkSync, rmSync } from 'node:fs';
import { test } from 'node:test';
import { setTimeout as sleep } from 'node:timers/promises';
import { bashTool } from '../../../worker/tools/bash.ts';
import { endBackground } from '../../../worker/tools/index.ts';
import { listProcesses } from '../../../worker/tools/process-table.ts';
import { workspace } from './support.ts';

/** Living processes with this argument; unique arguments keep parallel tests apart. */
function withArgument(argument: string): number[] {
  return execFileSync('ps', ['-eo', 'pid=,stat=,args='], { encoding: 'utf8' })
    .split('\n')
    .filter((line) => line.includes(argument) && !/^\s*\d+\s+Z/.test(line))
    .map((line) => Number.parseInt(line, 10));
}

const unique = (() => {
  let count = 0;
  return () => `${3_000_000 + process.pid}.${count++}`;
})();

test('output and exit code are told; an exit code other than 0 is an error', async (t) => {
  const { call } = workspace(t);
  assert.deepEqual(await call('bash', { command: 'echo out; echo err >&2' }), {
    content: 'out\nerr\n',
    isError: false,
  });
  assert.deepEqual(await call('bash', { command: 'echo out; exit 3' }), {
    content: 'out\n[exit code 3]',
    isError: true,
  });
  assert.deepEqual(await call('bash', { command: 'true' }), { content: '(no output)', isError: false });
  assert.deepEqual(await call('bash', { command: 'kill -TERM $$' }), {
    content: '[ended by SIGTERM]',
    isError: true,
  });
  assert.match(
    (await call('bash', { command: 'kill -KILL $$' })).content,
    /exit code 137: killed by SIGKILL, by whom is not known/,
  );
  assert.match(
    (await call('bash', { command: 'nope' })).content,
    /nope: command not found\n\[exit code 127\]/,
  );
});

test('a command can write to /dev/stdout and /dev/stderr by name', async (t) => {
  const { call } = workspace(t);
  const outcome = await call('bash', { command: 'echo a >/dev/stdout; echo b | tee /dev/stderr' });
  assert.deepEqual(outcome, { content: 'a\nb\nb\n', isError: false });
});

test('C142 a tool gets the environment without DJINN_ and no descriptor of the worker', async (t) => {
  const { call } = workspace(t);
  process.env.DJINN_API_KEY = 'sk-CANARY-1';
  process.env.OTHER = 'kept';
  const { content } = await call('bash', { command: 'env; ls -l /proc/self/fd' });
  delete process.env.DJINN_API_KEY;
  assert.equal(content.includes('CANARY'), false);
  assert.match(content, /OTHER=kept/);
  // Descriptors 3 and 4 of a worker under the daemon are the session's record.
  const program = `import { bashTool } from ${JSON.stringify(new URL('../../../worker/tools/bash.ts', import.meta.url).href)};
    const context = { cwd: '/tmp', signal: new AbortController().signal, readOnly: false };
    process.stdout.write((await bashTool.run({ command: 'ls -l /proc/$$/fd' }, context)).content);`;
  const { stdout } = spawnSync(process.execPath, ['--input-type=module', '-e', program], {
    stdio: ['ignore', 'pipe', 'inherit', 'pipe', 'pipe', 'pipe'],
    encoding: 'utf8',
  });
  assert.match(stdout, / 0 -> \/dev\/null/);
  assert.equal(/ [3-9] -> (socket|pipe)/.test(stdout), false, stdout);
});

test('C066 the call returns when its shell exits, the background child lives until the run ends', async (t) => {
  const { call, context, path } = workspace(t);
  const mark = unique();
  const startMs = Date.now();
  const writer = '(sleep 0.3; for i in $(seq 5000); do echo more; done; touch wrote)';
  const outcome = await call('bash', { command: `${writer} & sleep ${mark} & echo started` });
  assert.ok(Date.now() - startMs < 2000);
  assert.equal(outcome.isError, false);
  assert.match(outcome.content, /^started\n\[\d processes go on in the background\]$/);
  for (let round = 0; round < 40 && !existsSync(path('wrote')); round++) await sleep(50);
  assert.ok(existsSync(path('wrote')), 'a child that still writes is not ended by a closed pipe');
  assert.ok(withArgument(mark).length > 0);
  await endBackground(context.background ?? []);
  assert.deepEqual(withArgument(mark), []);
});

test('C068 a timeout reaches children that ignore TERM, that left the session, and of other programs', async (t) => {
  const { call } = workspace(t);
  const [a, b, c, d] = [unique(), unique(), unique(), unique()];
  const command = `echo partial; sh -c 'trap "" TERM INT HUP; sleep ${a}; sleep ${a}' & setsid sleep ${b} &
    setsid sh -c 'setsid sleep ${d} & sleep ${d}' >/dev/null 2>&1 & python3 -c 'import time,sys;time.sleep(303)' ${c}`;
  const startMs = Date.now();
  const outcome = await call('bash', { command, timeout_seconds: 2 });
  const tookMs = Date.now() - startMs;
  assert.ok(tookMs >= 2000 && tookMs < 6000, `${tookMs} ms`);
  assert.equal(outcome.isError, true);
  assert.match(outcome.content, /^partial\n/);
  assert.match(outcome.content, /timed out after 2 s/);
  for (const mark of [a, b, c, d]) assert.deepEqual(withArgument(mark), []);
  assert.equal((await call('bash', { command: 'echo next' })).content, 'next\n');
});

test('C068 a daemon that cut all ties but its output is found when the call times out', async (t) => {
  const { call } = workspace(t);
  const mark = unique();
  await call('bash', { command: `(setsid sh -c 'sleep ${mark} & exit' &) ; sleep 300`, timeout_seconds: 1 });
  assert.deepEqual(withArgument(mark), []);
});

test('a cancelled call ends its processes and says so', async (t) => {
  const { call } = workspace(t);
  const mark = unique();
  const controller = new AbortController();
  setTimeout(() => controller.abort(), 300);
  const outcome = await call(
    'bash',
    { command: `echo partial; sleep ${mark}` },
    { signal: controller.signal },
  );
  assert.deepEqual(outcome, {
    content: 'partial\n[cancelled; the command and its children were ended]',
    isError: true,
  });
  assert.deepEqual(withArgument(mark), []);
});

test('C070 there is no controlling terminal and no input, and no editor waits for some', async (t) => {
  const { call, context } = workspace(t);
  const editorBefore = process.env.EDITOR;
  process.env.EDITOR = 'sleep 60 #';
  t.after(() => {
    if (editorBefore === undefined) delete process.env.EDITOR;
    else process.env.EDITOR = editorBefore;
  });
  const commands = [
    'cat </dev/tty',
    'cat',
    'git init -q r && cd r && git -c user.name=a -c user.email=a commit --allow-empty',
    'cd r && git -c user.name=a -c user.email=a -c core.editor=vi commit --allow-empty',
    'sudo -k true',
    'tty',
  ];
  for (const command of commands) {
    const startMs = Date.now();
    const outcome = await call('bash', { command, timeout_seconds: 20 });
    assert.ok(Date.now() - startMs < 3000, command);
    assert.equal(outcome.isError, command !== 'cat', `${command}: ${outcome.content}`);
  }
  // The same from a process that has a terminal.
  const program = `import { bashTool } from ${JSON.stringify(new URL('../../../worker/tools/bash.ts', import.meta.url).href)};
    const context = { cwd: ${JSON.stringify(context.cwd)}, signal: new AbortController().signal, readOnly: false };
    console.log(JSON.stringify(await bashTool.run({ command: 'cat </dev/tty', timeout_seconds: 10 }, context)));`;
  const script = `"$NODE" --input-type=module -e "$PROGRAM"`;
  const { stdout } = spawnSync('script', ['-qec', script, '/dev/null'], {
    env: { ...process.env, NODE: process.execPath, PROGRAM: program },
    encoding: 'utf8',
    timeout: 15_000,
  });
  assert.match(stdout, /No such device or address/);
});

const FLOODS: [name: string, command: string, bytes: number][] = [
  ['lines', 'yes | head -c 2000000000', 2e9],
  ['one line', "head -c 500000000 /dev/zero | tr '\\0' a; echo", 500_000_001],
  ['both streams', 'yes | head -c 100000000 & yes | head -c 100000000 >&2; wait', 2e8],
];

for (const [name, command, bytes] of FLOODS) {
  test(`C071 a flood (${name}) takes bounded memory, its tail is kept and the dropped bytes are counted`, async (t) => {
    const { call } = workspace(t);
    const rssBefore = process.memoryUsage.rss();
    let rssPeak = 0;
    const sampler = setInterval(() => {
      rssPeak = Math.max(rssPeak, process.memoryUsage.rss());
    }, 20);
    const outcome = await call('bash', { command: `${command}; echo THE_END` });
    clearInterval(sampler);
    t.diagnostic(`RSS grew by ${Math.round((rssPeak - rssBefore) / 1e6)} MB`);
    assert.ok(rssPeak - rssBefore < 100e6, `${rssPeak - rssBefore}`);
    assert.equal(outcome.isError, false);
    assert.match(outcome.content, /THE_END\n$/);
    const note = /\n\[… (\d+) bytes dropped here …\]\n/.exec(outcome.content);
    assert.ok(note);
    const kept = Buffer.byteLength(outcome.content) - Buffer.byteLength(note[0]);
    assert.ok(kept <= 50 * 1024);
    assert.equal(kept + Number(note[1]), bytes + 'THE_END\n'.length);
  });
}

test('C080 41 kB are whole, of 60 kB the first and last 25 KiB', async (t) => {
  const { call } = workspace(t);
  const line = `${'x'.repeat(199)}\n`;
  const print = (count: number) => `for i in $(seq ${count}); do echo ${'x'.repeat(199)}; done`;
  assert.equal((await call('bash', { command: print(205) })).content, line.repeat(205));
  const all = line.repeat(300);
  assert.equal(
    (await call('bash', { command: print(300) })).content,
    `${all.slice(0, 25_600)}\n[… ${60_000 - 51_200} bytes dropped here …]\n${all.slice(-25_600)}`,
  );
});

test('C043 a cut never splits a code point', async (t) => {
  const { call } = workspace(t);
  for (const cut of [25_600, 60_000 - 25_600, 51_200]) {
    for (let at = cut - 4; at <= cut + 3; at++) {
      const { content } = await call('bash', {
        command: `head -c ${at} /dev/zero | tr '\\0' x; printf '🏷'; head -c ${60_000 - at - 4} /dev/zero | tr '\\0' y`,
      });
      assert.equal(content.includes('\ufffd'), false);
      const dropped = Number(/(\d+) bytes dropped/.exec(content)?.[1]);
      assert.ok(dropped >= 8800 && dropped <= 8806, `${dropped}`);
    }
  }
});

test('C073 output that is not text stays valid and readable', async (t) => {
  const { call } = workspace(t);
  const { content } = await call('bash', { command: "printf '\\xff\\xfe ok \\x00 \\x1b[31mred\\x1b[0m\\n'" });
  assert.equal(content, '\ufffd\ufffd ok \0 \u001b[31mred\u001b[0m\n');
  assert.equal(JSON.parse(JSON.stringify({ content })).content, content);
  const random = await call('bash', { command: 'head -c 100000 /dev/urandom' });
  assert.ok(Buffer.byteLength(random.content) < 50 * 1024 + 100);
});

test('C074 a working directory that a command removed is made again', async (t) => {
  const { call, dir } = workspace(t);
  await call('bash', { command: 'rm -rf "$PWD"' });
  assert.equal(existsSync(dir), false);
  const outcome = await call('bash', { command: 'pwd; echo alive' });
  assert.equal(outcome.isError, false);
  assert.equal(
    outcome.content,
    `${dir}\nalive\n[the working directory had been removed; it was made again, empty]`,
  );
  rmSync(dir, { recursive: true });
  const gone = await bashTool.run(
    { command: 'echo alive' },
    {
      cwd: `${dir}/below`,
      signal: new AbortController().signal,
      readOnly: false,
    },
  );
  assert.match(gone.content, /is gone and cannot be made again/);
  assert.equal(gone.isError, true);
  for (const [tool, args] of [
    ['read_file', { path: 'f' }],
    ['write_file', { path: 'f', content: '' }],
    ['edit_file', { path: 'f', old_string: 'a', new_string: 'b' }],
    ['read_image', { path: 'f' }],
    ['grep', { pattern: 'x' }],
    ['glob', {}],
  ] as const) {
    assert.match(
      (await call(tool, args)).content,
      /working directory .* is gone; a bash call makes it again/,
    );
  }
});

test('where no pipe can be made, the output comes all the same', async (t) => {
  const { call } = workspace(t);
  const before = process.env.TMPDIR;
  process.env.TMPDIR = '/nope';
  const outcome = await call('bash', { command: 'echo out; echo err >&2; exit 2' });
  if (before === undefined) delete process.env.TMPDIR;
  else process.env.TMPDIR = before;
  assert.deepEqual(outcome, { content: 'out\nerr\n[exit code 2]', isError: true });
});

test('no call leaves a process, a descriptor or a file of its pipe behind', async (t) => {
  const { call } = workspace(t);
  // Node opens some of its own when it first needs them.
  for (let round = 0; round < 5; round++) await call('bash', { command: 'true' });
  const open = () =>
    Number(execFileSync('sh', ['-c', `ls /proc/${process.pid}/fd | wc -l`], { encoding: 'utf8' }));
  const before = open();
  for (let round = 0; round < 20; round++) await call('bash', { command: 'echo x', timeout_seconds: 5 });
  for (let n = 0; n < 100 && open() > before + 1; n++) await sleep(50);
  assert.ok(open() <= before + 1, `${before} descriptors before, ${open()} after`);
  assert.deepEqual(
    listProcesses().filter((entry) => entry.parentPid === process.pid && entry.isEnding),
    [],
  );
  assert.equal(spawnSync('sh', ['-c', `ls -a /tmp | grep djinn-pipe-${process.pid}-`]).stdout.length, 0);
});

test('a pipe is used again only when nobody writes to it: a late writer never speaks in another call', async (t) => {
  const { call } = workspace(t);
  const openPipes = () =>
    readdirSync('/proc/self/fd').filter((fd) => {
      try {
        return readlinkSync(`/proc/self/fd/${fd}`).includes('.djinn-pipe-');
      } catch {
        return false;
      }
    }).length;
  const late = await call('bash', {
    command: '(for n in 1 2 3 4 5 6; do sleep 0.1; echo LATE; done) & echo first',
  });
  assert.equal(late.content.split('\n')[0], 'first');
  for (let n = 0; n < 12; n += 1) {
    assert.equal((await call('bash', { command: `sleep 0.1; echo ${n}` })).content, `${n}\n`);
  }
  const both = await Promise.all(
    ['a', 'b', 'c'].map((word) => call('bash', { command: `sleep 0.1; echo ${word}` })),
  );
  assert.deepEqual(
    both.map(({ content }) => content),
    ['a\n', 'b\n', 'c\n'],
  );
  assert.ok(openPipes() <= 5, `${openPipes()} descriptors of pipes are open`);
});
