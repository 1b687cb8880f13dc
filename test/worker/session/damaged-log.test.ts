// Whatever is left of a session log, a run goes on from it with a request that a picky provider accepts.
import assert from 'node:assert/strict';
import { mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { test } from 'node:test';
import { fileURLToPath } from 'node:url';
import fc from 'fast-check';
import { findProblems } from '../../../worker/fake-openai/strict.ts';
import { type RunOptions, run, type Tool, type WorkerEvent } from '../../../worker/index.ts';
import type { ModelSource } from '../../../worker/model-source.ts';
import { verifyLog } from '../../../worker/replay/verify.ts';
import { crc32Hex } from '../../../worker/session/crc32.ts';
import { withLog } from '../../../worker/session/log-file.ts';
import { formatRecord, type RecordData, type RecordType } from '../../../worker/session/record.ts';

const OLD = readFileSync(fileURLToPath(new URL('./fixtures/written-by-0.1.0.jsonl', import.meta.url)));

const EFFECTS: Record<string, Tool['effect']> = { bash: 'exec', write_file: 'write', edit_file: 'write' };
const TOOLS: Tool[] = ['read_file', 'write_file', 'edit_file', 'bash', 'read_image', 'grep', 'glob'].map(
  (name) => ({
    name,
    description: name,
    parameters: { type: 'object', properties: {} },
    effect: EFFECTS[name] ?? 'pure',
    run: async () => ({ content: `${name} ran`, isError: false }),
  }),
);

interface Resumed {
  last: WorkerEvent | undefined;
  bodies: string[];
  warnings: { message: string; fields: Record<string, unknown> }[];
  /** The log afterwards. */
  after: Buffer;
  problems: { kind: string }[];
}

/** Goes on from these bytes as the log of a session, in this process, with a model that only says `ok`. */
async function resume(bytes: Uint8Array, prompt: string | undefined = 'go on'): Promise<Resumed> {
  const dir = mkdtempSync(join(tmpdir(), 'djinn-worker-'));
  const path = join(dir, 's.jsonl');
  writeFileSync(path, bytes);
  const bodies: string[] = [];
  const warnings: Resumed['warnings'] = [];
  const source: ModelSource = {
    now: Date.now,
    sleep: async () => {},
    async complete({ body }) {
      bodies.push(body);
      return { text: 'ok', reasoning: '', reasoningField: null, calls: [], finish: 'stop', usage: null };
    },
  };
  const options: RunOptions = {
    ...(prompt === undefined ? {} : { prompt }),
    sessionId: 's',
    cwd: dir,
    models: [{ id: 'primary', baseUrl: 'http://127.0.0.1:1/v1' }],
    tools: TOOLS,
    session: { provider: 'file', dir },
    source,
    log: (_, message, fields = {}) => warnings.push({ message, fields }),
  };
  try {
    let last: WorkerEvent | undefined;
    for await (const event of run(options)) last = event;
    return { last, bodies, warnings, after: readFileSync(path), problems: withLog(path, verifyLog).problems };
  } finally {
    rmSync(dir, { recursive: true, force: true });
  }
}

/** The run ended well, every request is one that a picky provider takes, and the last thing said is the prompt. */
function accept({ last, bodies }: Resumed, where: string): void {
  assert.equal(last?.type, 'done', `${where}: ${JSON.stringify(last)}`);
  assert.ok(bodies.length > 0, where);
  for (const body of bodies) assert.deepEqual(findProblems(JSON.parse(body)), [], where);
  assert.deepEqual(
    JSON.parse(bodies.at(-1) as string).messages.at(-1),
    { role: 'user', content: 'go on' },
    where,
  );
}

/** Where each record begins, and the end. */
function bordersOf(log: Buffer): number[] {
  const borders = [0];
  for (let at = log.indexOf(10); at !== -1; at = log.indexOf(10, at + 1)) borders.push(at + 1);
  return borders;
}

async function checkCut(log: Buffer, at: number): Promise<void> {
  const resumed = await resume(log.subarray(0, at));
  const where = `cut at byte ${at}`;
  accept(resumed, where);
  const whole = bordersOf(log)
    .filter((border) => border <= at)
    .at(-1) as number;
  assert.ok(
    resumed.after.subarray(0, whole).equals(log.subarray(0, whole)),
    `${where}: earlier records changed`,
  );
  assert.deepEqual(resumed.problems, [], where);
  // A record that lacks only its LF is whole.
  const torn = at > whole && log[at] !== 10;
  const warned = resumed.warnings.filter((one) => one.message.includes('damaged'));
  assert.equal(warned.length, torn ? 1 : 0, where);
  if (torn)
    assert.deepEqual(
      [warned[0]?.fields.offset, String(warned[0]?.fields.file).endsWith('s.jsonl')],
      [whole, true],
    );
}

test('any cut of a log resumes to a request that the strict validator accepts, and costs at most its last record', async () => {
  const borders = bordersOf(OLD);
  await fc.assert(
    fc.asyncProperty(fc.integer({ min: 0, max: OLD.length }), (at) => checkCut(OLD, at)),
    {
      numRuns: 250,
      examples: borders
        .flatMap((at) => [at - 1, at, at + 1])
        .filter((at) => at >= 0 && at <= OLD.length)
        .map((at) => [at]),
    },
  );
});

test('any byte of a log changed, or any piece cut out of it, resumes to an accepted request too', async () => {
  const damaged = fc.record({
    at: fc.integer({ min: 0, max: OLD.length - 1 }),
    cut: fc.integer({ min: 0, max: 3000 }),
    put: fc.uint8Array({ maxLength: 3 }),
  });
  await fc.assert(
    fc.asyncProperty(damaged, async ({ at, cut, put }) => {
      const bytes = Buffer.concat([OLD.subarray(0, at), put, OLD.subarray(at + cut)]);
      accept(await resume(bytes), JSON.stringify({ at, cut, put: [...put] }));
    }),
    { numRuns: 250 },
  );
});

test('records in any order, twice or not at all resume to an accepted request', async () => {
  const lines = OLD.toString('utf8').trimEnd().split('\n');
  const some = fc.array(fc.nat({ max: lines.length - 1 }), { maxLength: 60 });
  await fc.assert(
    fc.asyncProperty(some, async (picked) => {
      const records = picked.map(
        (index) => JSON.parse(lines[index] as string) as { type: RecordType; data: never },
      );
      const text = records.map(
        ({ type, data }, index) => `${formatRecord(index + 1, '2026-11-30T10:00:00.000Z', type, data)}\n`,
      );
      accept(await resume(Buffer.from(text.join(''))), picked.join(','));
    }),
    { numRuns: 250 },
  );
});

test('C032: for every length of a torn sixth record the five before it are in the request', async () => {
  const texts = ['one', 'two', 'three', 'four', 'five', 'six 北🌍'];
  const lines = texts.map((text, index) =>
    formatRecord(index + 1, '2026-11-30T10:00:00.000Z', 'user', { text }),
  );
  const log = Buffer.from(`${lines.join('\n')}\n`);
  const start = bordersOf(log).at(-2) as number;
  for (let at = start + 1; at < log.length - 1; at += 1) {
    const resumed = await resume(log.subarray(0, at));
    accept(resumed, `byte ${at}`);
    const said = JSON.parse(resumed.bodies[0] as string)
      .messages.slice(1)
      .map((one: { content: string }) => one.content);
    assert.deepEqual(said, [...texts.slice(0, 5), 'go on']);
    assert.equal(resumed.warnings[0]?.fields.offset, start);
  }
});

test('C035: a tear inside a character costs its record and changes no byte before it', async () => {
  const lines = ['Köln…', 'last…北'].map((text, index) =>
    formatRecord(index + 1, '2026-11-30T10:00:00.000Z', 'user', { text }),
  );
  const log = Buffer.from(`${lines.join('\n')}\n`);
  const second = bordersOf(log)[1] as number;
  for (const inside of [1, 2]) {
    const resumed = await resume(log.subarray(0, log.lastIndexOf(Buffer.from('北')) + inside));
    accept(resumed, `${inside} bytes of the character`);
    assert.ok(resumed.after.subarray(0, second).equals(log.subarray(0, second)));
    assert.ok(!resumed.after.includes(Buffer.from('\uFFFD')));
    assert.deepEqual(resumed.problems, []);
  }
});

test('C034: a last record without its LF is kept, and the next one begins on a line of its own', async () => {
  const line = formatRecord(1, '2026-11-30T10:00:00.000Z', 'user', { text: 'kept' });
  const resumed = await resume(Buffer.from(line));
  accept(resumed, 'no LF');
  assert.ok(resumed.bodies[0]?.includes('"kept"'));
  assert.ok(resumed.after.toString('utf8').startsWith(`${line}\n{"v":1,"seq":2,`));
  assert.deepEqual([resumed.warnings, resumed.problems], [[], []]);
});

const SOME = { name: 'glob', arguments: '{}' };
const answer = (id: string): RecordData['assistant'] => ({
  model: 'primary',
  text: '',
  reasoning: '',
  reasoningField: null,
  calls: [{ id, ...SOME }],
  finish: 'tool_calls',
  usage: null,
  requestLength: 1,
  requestGuess: 1,
  requestImages: 0,
});
const result = (callId: string): RecordData['tool_result'] => ({
  callId,
  name: 'glob',
  content: callId,
  isError: false,
});

function logOf(...records: { [T in RecordType]: [T, RecordData[T]] }[RecordType][]): Buffer {
  const lines = records.map(([type, data], index) =>
    formatRecord(index + 1, '2026-11-30T10:00:00.000Z', type, data),
  );
  return Buffer.from(`${lines.join('\n')}\n`);
}

test('orphans in both directions are repaired anywhere and never silently', async () => {
  const resumed = await resume(
    logOf(
      ['tool_result', result('before anything')],
      ['user', { text: 'go' }],
      ['assistant', answer('no result')],
      ['user', { text: 'more' }],
      ['assistant', answer('a')],
      ['tool_result', result('a')],
      ['tool_result', result('a')],
      ['tool_result', result('of nobody')],
      ['tool_started', { callId: 'never asked', name: 'glob', effect: 'pure' }],
      ['user', { text: 'then' }],
    ),
  );
  accept(resumed, 'orphans');
  const { messages } = JSON.parse(resumed.bodies[0] as string);
  const tools = messages.filter((one: { role: string }) => one.role === 'tool');
  assert.deepEqual(
    tools.map((one: { tool_call_id: string; content: string }) => [one.tool_call_id, one.content]),
    [
      ['no result', 'interrupted: this call has no recorded result'],
      ['a', 'a'],
    ],
  );
  assert.deepEqual(
    resumed.warnings.map((one) => [one.message, one.fields.count]),
    [['results without their call were set aside', 4]],
  );
});

test('records of types that this version does not know stay in the log and are passed over', async () => {
  const line = formatRecord(1, '2026-11-30T10:00:00.000Z', 'mood' as RecordType, { is: 'good' });
  const resumed = await resume(Buffer.from(`${line}\n`));
  accept(resumed, 'unknown type');
  assert.ok(resumed.after.toString('utf8').startsWith(`${line}\n`));
});

/** A record as a later version might write it. */
function newerLine(): string {
  const text = JSON.stringify({
    v: 2,
    seq: 48,
    ts: '2027-11-30T10:00:00.000Z',
    type: 'user',
    data: { text: 'hi' },
  });
  return `${text.slice(0, -1)},"crc":"${crc32Hex(Buffer.from(text))}"}`;
}

test('a log of a later version is refused and stays as it is, with and without its last LF', async () => {
  for (const end of ['\n', '']) {
    const log = Buffer.concat([OLD, Buffer.from(`${newerLine()}${end}`)]);
    const { last, bodies, after } = await resume(log);
    assert.deepEqual([last?.type, last?.type === 'error' && last.code], ['error', 'session_newer']);
    assert.deepEqual([bodies, after.equals(log)], [[], true]);
  }
});
