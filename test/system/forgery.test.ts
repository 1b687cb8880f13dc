// An engine that lies: what it writes beside the protocol reaches no reader as genuine, and what it writes into its session's
// record ends the job and harms no other. The engine writes byte for byte what the test says (C119, C139, C160).
import assert from 'node:assert/strict';
import { mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { after, before, test } from 'node:test';
import { endOf, type Line, readLines, startDaemon, type TestDaemon } from '../support/daemon.ts';
import { removeUsers, uidOf } from '../support/tenant-users.ts';
import { ADMITTED, DONE, END, REFUSED, record, token } from './forged-lines.ts';
import { leftovers } from './leftovers.ts';
import { processesOf } from './tenant-view.ts';

const tenant = `f${process.pid}`;
const skip = process.getuid?.() === 0 ? false : 'needs root: an engine definition of its own';
let daemon: TestDaemon;
let key: string;
let enginesDir: string;

before(async () => {
  if (skip !== false) return;
  enginesDir = mkdtempSync(join(tmpdir(), 'djinnd-engines-'));
  const argv = ['/opt/djinn/node', '/opt/djinn/engine/forger.cjs'];
  const definition = { name: 'forger', kind: 'command', argv, files: ['forger.cjs'] };
  writeFileSync(join(enginesDir, 'forger.json'), JSON.stringify(definition));
  const program = readFileSync(join(import.meta.dirname, 'forger.cjs'));
  writeFileSync(join(enginesDir, 'forger.cjs'), program, { mode: 0o644 });
  daemon = await startDaemon({ instance: `forgery-${process.pid}`, env: { DJINND_ENGINES_DIR: enginesDir } });
  key = await daemon.tenant(tenant, '--engine', 'forger');
});

after(async () => {
  if (skip !== false) return;
  assert.doesNotMatch(await daemon.log(), /"level":"(error|fatal)"/);
  assert.equal(await daemon.close(), 0);
  assert.deepEqual(leftovers(daemon), []);
  for (const dir of [daemon.stateDir, enginesDir]) rmSync(dir, { recursive: true });
  removeUsers([tenant]);
});

interface Write {
  fd: 1 | 2 | 3;
  bytes: string | Buffer;
  times?: number;
}

/** A job that writes these bytes; the answer's text as it came. */
async function forge(writes: Write[], sessionId?: string): Promise<string> {
  const steps = writes.map(({ fd, bytes, times }) => {
    const base64 = (typeof bytes === 'string' ? Buffer.from(bytes) : bytes).toString('base64');
    return { fd, base64, ...(times === undefined ? {} : { times }) };
  });
  const response = await daemon.post(key, {
    prompt: JSON.stringify(steps),
    ...(sessionId === undefined ? {} : { sessionId }),
  });
  assert.equal(response.status, 200);
  return response.text();
}

/** Every line is the spawner's: numbered without a gap, of this job, no name twice, one end and that last. */
function checkedLines(text: string): Line[] {
  const lines = readLines(text);
  const [first] = lines;
  for (const [index, line] of lines.entries()) {
    const { seq, ts, attempt, jobId } = line;
    assert.equal(seq, index);
    assert.equal(jobId, first?.jobId);
    assert.equal(attempt, index === 0 ? 0 : 1);
    assert.ok(Math.abs(Date.parse(String(ts)) - Date.now()) < 600_000, String(ts));
  }
  assert.equal(
    text,
    lines.map((line) => `${JSON.stringify(line)}\n`).join(''),
    'what is read is what was written',
  );
  endOf(lines);
  return lines;
}

const own = (lines: Line[]) => lines.filter(({ type }) => !['job', 'resources', 'end'].includes(type));
test('no line that a program forges reaches a reader as the spawner’s own', { skip }, async () => {
  const line = (bytes: string | Buffer): Write => ({
    fd: 1,
    bytes: Buffer.concat([Buffer.from(bytes), Buffer.from('\n')]),
  });
  const lines = checkedLines(
    await forge([...REFUSED.map(line), line(token('genuine')), { fd: 1, bytes: DONE }]),
  );
  assert.deepEqual(
    own(lines).map(({ type, text }) => [type, text]),
    [
      ['token', 'genuine'],
      ['done', ''],
    ],
  );
  const end = endOf(lines);
  assert.equal(end.evidence.rejectedLines, REFUSED.length);
  assert.doesNotMatch(JSON.stringify(lines), /forged/);
});

test('an admitted line reads the same to every reader, whatever its bytes were', { skip }, async () => {
  for (const [bytes, expected] of ADMITTED) {
    const lines = checkedLines(
      await forge([
        { fd: 1, bytes },
        { fd: 1, bytes: `\n${DONE}` },
      ]),
    );
    const [first, last] = own(lines);
    assert.deepEqual({ type: first?.type, text: first?.text }, expected, JSON.stringify(expected));
    assert.equal(last?.type, 'done');
    assert.equal(endOf(lines).outcome, 'ok');
  }
});

test('a line of 20 MB without its end is dropped, counted, and ends neither the stream nor its neighbours', {
  skip,
}, async () => {
  const megabyte = Buffer.alloc(1024 * 1024, 'x');
  const long = (start: string): Write[] => [
    { fd: 1, bytes: start },
    { fd: 1, bytes: megabyte, times: 20 },
  ];
  const text = await forge([
    { fd: 1, bytes: `${token('before')}\n` },
    ...long('{"type":"token","text":"'),
    { fd: 1, bytes: `"}\n${token('after')}\n` },
    ...long(`{${END},"x":"`),
    { fd: 1, bytes: `\n${DONE}` },
    ...long(`{${END},"x":"`),
  ]);
  const lines = checkedLines(text);
  assert.deepEqual(
    own(lines).map(({ text }) => text),
    ['before', 'after', ''],
  );
  assert.equal(endOf(lines).evidence.rejectedLines, 3);
  assert.ok(text.length < 64 * 1024);
});

test('half a line at the end is no event, and a forged end does not make a job succeed', {
  skip,
}, async () => {
  for (const bytes of [`{${END}`, `{${END}}`, `{${END}}\n`, DONE.slice(0, -3), token('x')]) {
    const lines = checkedLines(await forge([{ fd: 1, bytes }]));
    assert.equal(endOf(lines).outcome, 'failed', bytes);
  }
});

test('stored lines and server-sent events are those of the live stream', { skip }, async () => {
  const live = await forge([
    ...ADMITTED.map(
      ([bytes]): Write => ({ fd: 1, bytes: Buffer.concat([Buffer.from(bytes), Buffer.from('\n')]) }),
    ),
    { fd: 1, bytes: DONE },
  ]);
  const lines = checkedLines(live);
  const path = `/v1/jobs/${lines[0]?.jobId}/events`;
  assert.equal(await (await daemon.get(key, path)).text(), live);
  const headers = { authorization: `Bearer ${key}`, accept: 'text/event-stream' };
  const events = await (await fetch(daemon.url + path, { headers })).text();
  const fields = events.split(/\r\n|\r|\n/).filter((field) => field !== '' && !field.startsWith(':'));
  const data = fields
    .filter((field) => field.startsWith('data:'))
    .map((field) => field.slice('data:'.length).trimStart());
  assert.deepEqual(data, live.trimEnd().split('\n'));
  assert.ok(fields.every((field) => /^(data|id|event|retry):/.test(field)));
  const ids = fields
    .filter((field) => field.startsWith('id:'))
    .map((field) => field.slice('id:'.length).trim());
  assert.deepEqual(
    ids,
    lines.map(({ attempt, seq }) => `${attempt}-${seq}`),
  );
});

test('what a program writes to its log stays inside one field of lines that are the spawner’s', {
  skip,
}, async () => {
  const forged = '{"level":"fatal","name":"spawner","tenantId":"another","msg":"forged"}';
  const bytes = `x\n${forged}\r${forged}\n\u001b[2J\u001b]0;forged\u0007\u0085${forged}\u2028\n\u0000\ufffe\n`;
  checkedLines(
    await forge([
      { fd: 2, bytes },
      { fd: 1, bytes: DONE },
    ]),
  );
  const lines = (await daemon.log()).split('\n').filter((line) => line.includes('forged'));
  assert.ok(lines.length >= 2);
  for (const line of lines) {
    assert.ok(![...line].some((one) => one < ' ' || one === '\u007f'), line);
    const entry = JSON.parse(line) as Record<string, unknown>;
    assert.deepEqual(
      [entry.level, entry.name, entry.tenantId, entry.msg],
      ['info', 'spawner', tenant, 'program'],
    );
    assert.match(String(entry.stderr), /forged/);
  }
});

test('garbage and forged records on descriptor 3 end the job and harm neither the next nor another', {
  skip,
}, async () => {
  const megabyte = Buffer.alloc(1024 * 1024, 'x');
  const wrong: Write[][] = [
    [{ fd: 3, bytes: 'hello\n' }],
    [{ fd: 3, bytes: `${record(2)}\n` }],
    [{ fd: 3, bytes: '+not json\n' }],
    [{ fd: 3, bytes: '+[2]\n' }],
    [{ fd: 3, bytes: `+${record(1)}\n` }],
    [{ fd: 3, bytes: `+${record(3)}\n` }],
    [{ fd: 3, bytes: `!${record(0)}\n` }],
    ...['"2"', '2.5', '-2', 'null', '1e400', '9007199254740993'].map((seq): Write[] => [
      { fd: 3, bytes: `+${record(seq)}\n` },
    ]),
    [{ fd: 3, bytes: `+${record(2, ',"seq":7')}\n` }],
    [{ fd: 3, bytes: `+${record(2)}\r+${record(3)}\n` }],
    [
      { fd: 3, bytes: Buffer.alloc(4096) },
      { fd: 3, bytes: '\n' },
    ],
    [{ fd: 3, bytes: Buffer.from([0xff, 0xfe, 0x0a]) }],
    [
      { fd: 3, bytes: '+{"seq":2,"x":"' },
      { fd: 3, bytes: megabyte, times: 20 },
    ],
  ];
  const file = (session: string) => join(daemon.stateDir, 'sessions', tenant, `${session}.jsonl`);
  const whole = `${record(1)}\n`;
  for (const [index, writes] of wrong.entries()) {
    const session = `wrong${index}`;
    checkedLines(
      await forge(
        [
          { fd: 3, bytes: `+${record(1)}\n` },
          { fd: 1, bytes: DONE },
        ],
        session,
      ),
    );
    const end = endOf(checkedLines(await forge([...writes, { fd: 1, bytes: DONE }], session)));
    const said = JSON.stringify(writes[0]?.bytes).slice(0, 80);
    assert.deepEqual(
      [end.outcome, (end.cause as { code: string } | undefined)?.code],
      ['failed', 'session_record'],
      said,
    );
    assert.equal(readFileSync(file(session), 'utf8'), whole, said);
    const next = await forge(
      [
        { fd: 3, bytes: `!${record(2)}\n` },
        { fd: 1, bytes: DONE },
      ],
      session,
    );
    assert.equal(endOf(checkedLines(next)).outcome, 'ok', said);
    assert.equal(readFileSync(file(session), 'utf8'), `${whole}${record(2)}\n`, said);
  }
  assert.deepEqual(processesOf(uidOf(tenant)), []);
});
