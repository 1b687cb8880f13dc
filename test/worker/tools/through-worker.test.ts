// The tool cases once more as a model meets them: a call through the real worker, its result in the next request.
import assert from 'node:assert/strict';
import { existsSync, mkdirSync, readFileSync, symlinkSync, truncateSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { type TestContext, test } from 'node:test';
import { contentChunk, startFakeOpenAI, toolCallChunk } from '../../../worker/index.ts';
import { makeFolder, startWorker, terminal } from '../worker-process.ts';
import { png } from './images.ts';

interface Seen {
  /** The tool messages of the last request, in order. */
  results: string[];
  isError: boolean[];
  cwd: string;
  /** Most memory that the worker had, in MB. */
  peakMb: number;
}

type Call = [tool: string, args: Record<string, unknown>];

/** Runs the calls one after the other in a folder that `prepare` fills; the run must be done. */
async function callThrough(t: TestContext, calls: Call[], prepare: (cwd: string) => void): Promise<Seen> {
  const home = makeFolder(t);
  const cwd = join(home, 'work');
  mkdirSync(cwd);
  prepare(cwd);
  let peakMb = 0;
  let pid: number | undefined;
  const fake = await startFakeOpenAI(({ index }) => {
    const status = readFileSync(`/proc/${pid}/status`, 'utf8');
    peakMb = Math.round(Number(/VmHWM:\s+(\d+) kB/.exec(status)?.[1]) / 1024);
    const call = calls[index];
    return {
      sse: [call === undefined ? contentChunk('ok') : toolCallChunk(...call, { id: `call_${index}` })],
    };
  });
  t.after(() => fake.stop());
  const worker = startWorker(t, ['-p', 'go', '--cwd', cwd], { home, baseUrl: fake.baseUrl });
  pid = worker.child.pid;
  const end = await worker.ended;
  const last = terminal(end.events);
  assert.deepEqual([end.code, last.type === 'done' ? last.text : last], [0, 'ok'], end.stderr);
  assert.deepEqual(
    fake.requests.flatMap((request) => request.problems),
    [],
  );
  const messages: { role: string; content: string }[] = fake.requests.at(-1)?.body.messages;
  return {
    results: messages.filter((one) => one.role === 'tool').map((one) => one.content),
    isError: end.events.flatMap((event) => (event.type === 'tool_result' ? [event.isError] : [])),
    cwd,
    peakMb,
  };
}

const file = (name: string, content: string | Buffer) => (cwd: string) =>
  writeFileSync(join(cwd, name), content);
const contentOf = ({ cwd }: Seen, name: string): string => readFileSync(join(cwd, name), 'latin1');
const edit = (old_string: string, new_string: string, more = {}): Call => [
  'edit_file',
  { path: 'f', old_string, new_string, ...more },
];
const bash = (command: string, more = {}): Call => ['bash', { command, ...more }];

const AMBIGUOUS = 'dev:\n debug = True\nprod:\n debug = True\n';
const CASES: [name: string, calls: Call[], prepare: (cwd: string) => void, check: (seen: Seen) => void][] = [
  [
    'C052 LF arguments edit a CRLF file',
    [edit('b\nc', 'X\nY')],
    file('f', 'a\r\nb\r\nc\r\n'),
    (seen) => assert.equal(contentOf(seen, 'f'), 'a\r\nX\r\nY\r\n'),
  ],
  [
    'C053 a byte that is not UTF-8 survives an edit',
    [edit('x = 1', 'x = 2')],
    file('f', Buffer.from('const x = 1;\n// caf\xe9 note\n', 'latin1')),
    (seen) => assert.equal(contentOf(seen, 'f'), 'const x = 2;\n// caf\xe9 note\n'),
  ],
  [
    'C055 an ambiguous match is refused with its count',
    [edit(' debug = True', ' debug = False')],
    file('f', AMBIGUOUS),
    (seen) => {
      assert.match(seen.results[0] ?? '', /occurs 2 times/);
      assert.equal(contentOf(seen, 'f'), AMBIGUOUS);
    },
  ],
  [
    'C056 an empty old string is refused, for a file and for a missing one',
    [edit('', 'X'), edit('', 'X', { replace_all: true }), edit('', 'X', { path: 'nope' })],
    file('f', 'abc'),
    (seen) => {
      assert.deepEqual(seen.isError, [true, true, true]);
      assert.match(seen.results[2] ?? '', /write_file/);
      assert.equal(contentOf(seen, 'f'), 'abc');
      assert.equal(existsSync(join(seen.cwd, 'nope')), false);
    },
  ],
  [
    'C059 a pattern that looks like a flag',
    [['grep', { pattern: '--help' }]],
    file('f', '-77\n--help\n'),
    ({ results }) => assert.deepEqual(results, ['f:2:--help']),
  ],
  [
    'C061 a hostile and an invalid pattern, and the run goes on',
    [
      ['grep', { pattern: '(a+)+$' }],
      ['grep', { pattern: '(' }],
      ['grep', { pattern: 'a!' }],
    ],
    file('f', `${'a'.repeat(40)}!\n`),
    ({ isError, results }) => {
      assert.deepEqual(isError, [true, true, false]);
      assert.match(results[1] ?? '', /not valid/);
    },
  ],
  [
    'C062 links that go in circles',
    [
      ['glob', { pattern: '**/f' }],
      ['grep', { pattern: 'x' }],
    ],
    (cwd) => {
      mkdirSync(join(cwd, 'sub'));
      for (const [target, name] of [
        ['.', 'sub'],
        ['..', 'up'],
        ['/', 'root'],
      ] as const)
        symlinkSync(target, join(cwd, 'sub', name));
      writeFileSync(join(cwd, 'sub/f'), 'x\n');
    },
    ({ results }) => assert.deepEqual(results, ['sub/f', 'sub/f:1:x']),
  ],
  [
    'C064 ranges, past the end, and wrong ones',
    [
      ['read_file', { path: 'f', offset: 3, limit: 1 }],
      ['read_file', { path: 'f', offset: 4 }],
      ['read_file', { path: 'f', offset: 0 }],
      ['read_file', { path: 'f', offset: 1.5 }],
    ],
    file('f', 'a\nb\nc'),
    ({ isError, results }) => {
      assert.deepEqual(results.slice(0, 2), ['c', '[line 4 is past the end: f has 3 lines]']);
      assert.deepEqual(isError, [false, false, true, true]);
    },
  ],
  [
    'C065 two lines of 4 GiB',
    [['read_file', { path: 'big', offset: 1, limit: 2 }]],
    (cwd) => {
      writeFileSync(join(cwd, 'big'), 'l1\nl2\n');
      truncateSync(join(cwd, 'big'), 4 * 1024 ** 3);
    },
    ({ results, peakMb }) => {
      assert.match(results[0] ?? '', /^l1\nl2\n/);
      assert.ok(peakMb < 150, `${peakMb} MB`);
    },
  ],
  [
    'C068 a timeout keeps the output so far, and the next call works',
    [
      bash(`echo partial; sh -c 'trap "" TERM INT HUP; sleep 301' & setsid sleep 302 & sleep 303`, {
        timeout_seconds: 1,
      }),
      bash('echo next'),
    ],
    () => {},
    ({ isError, results }) => {
      assert.match(results[0] ?? '', /^partial\n.*timed out after 1 s/s);
      assert.deepEqual([isError, results[1]], [[true, false], 'next\n']);
    },
  ],
  [
    'C070 no terminal',
    [bash('cat </dev/tty'), bash('tty'), bash('cat')],
    () => {},
    ({ isError }) => assert.deepEqual(isError, [true, true, false]),
  ],
  [
    'C071 a flood of 2 GB keeps head and tail',
    [bash('yes | head -c 2000000000; echo THE_END')],
    () => {},
    ({ results, peakMb }) => {
      assert.match(results[0] ?? '', /^y\ny\n.*\d{10} bytes dropped here.*THE_END\n$/s);
      assert.ok(Buffer.byteLength(results[0] ?? '') < 52 * 1024);
      assert.ok(peakMb < 150, `${peakMb} MB`);
    },
  ],
  [
    'C073 output that is not text',
    [bash("printf '\\xff\\xfe ok \\x00 \\x1b[31mred\\x1b[0m\\n'")],
    () => {},
    ({ results }) => assert.deepEqual(results, ['\ufffd\ufffd ok \0 \u001b[31mred\u001b[0m\n']),
  ],
  [
    'C074 the working directory vanishes',
    [bash('rm -rf "$PWD"'), bash('pwd; echo alive'), ['glob', {}]],
    () => {},
    ({ results }) => assert.match(results[1] ?? '', /\nalive\n\[the working directory had been removed/),
  ],
  [
    'C077 a decompression bomb',
    [['read_image', { path: 'bomb.png' }]],
    file('bomb.png', png(30_000, 30_000)),
    ({ results, peakMb }) => {
      assert.match(results[0] ?? '', /too large: 30000×30000 pixels/);
      assert.ok(peakMb < 150, `${peakMb} MB`);
    },
  ],
  [
    'C079 missing parents, a directory, nothing, and 4 MB',
    [
      ['write_file', { path: 'a/b/f', content: 'x' }],
      ['write_file', { path: 'a', content: 'x' }],
      ['write_file', { path: 'empty', content: '' }],
      ['write_file', { path: 'big', content: 'n'.repeat(4_000_000) }],
    ],
    () => {},
    (seen) => {
      assert.deepEqual(seen.isError, [false, true, false, false]);
      assert.deepEqual([contentOf(seen, 'a/b/f'), contentOf(seen, 'empty')], ['x', '']);
      assert.equal(contentOf(seen, 'big').length, 4_000_000);
    },
  ],
  [
    'C080 41 kB whole, 60 kB cut in the middle',
    [
      bash(`for i in $(seq 205); do echo ${'x'.repeat(199)}; done`),
      bash(`for i in $(seq 300); do echo ${'x'.repeat(199)}; done`),
    ],
    () => {},
    ({ results }) => {
      assert.equal(results[0]?.length, 41_000);
      assert.match(results[1] ?? '', /\n\[… 8800 bytes dropped here …\]\n/);
    },
  ],
];

for (const [name, calls, prepare, check] of CASES) {
  test(`${name}, through the worker`, async (t) => check(await callThrough(t, calls, prepare)));
}
