// The engine `scripted`: does exactly what its prompt says, without a model. For tests, demonstrations and as the
// smallest example of the worker protocol. Node 18 or later, no dependency. The steps are listed in docs/engines.md.
const { spawn } = require('node:child_process');
const fs = require('node:fs');
const net = require('node:net');

const BLOCK_BYTES = 64 * 1024;
const ALLOCATE_BYTES = 16 * 1024 * 1024;
const MAX_OUTPUT_BYTES = 1024 * 1024;
const NO_USAGE = { inputTokens: 0, outputTokens: 0, totalTokens: 0 };

const run = {
  job: null,
  text: '',
  turns: 0,
  calls: 0,
  lastSeq: 0,
  ignoresTerm: false,
  held: [],
  output: null,
  records: null,
};

function isStream(fd) {
  try {
    const stat = fs.fstatSync(fd);
    return stat.isSocket() || stat.isFIFO();
  } catch {
    return false; // not open
  }
}

/** Asynchronous: a job that is late must not keep TERM from being handled. */
async function readInput() {
  let text = '';
  for await (const chunk of process.stdin.setEncoding('utf8')) text += chunk;
  return text;
}

/** Asynchronous also on a full pipe: a reader that stops must not keep TERM from being handled. */
function openOutput() {
  const output = isStream(1) ? new net.Socket({ fd: 1, readable: false }) : process.stdout;
  output.on('error', () => process.exit(1)); // nobody reads: nothing is left to say
  return output;
}

function write(text) {
  return new Promise((resolve) => {
    if (run.output.write(text)) resolve();
    else run.output.once('drain', resolve);
  });
}

const emit = (event) => write(`${JSON.stringify(event)}\n`);
const flush = () => new Promise((resolve) => run.output.write('', resolve));
const sleep = (milliseconds) => new Promise((resolve) => setTimeout(resolve, milliseconds));

async function say(text) {
  run.text += text;
  await emit({ type: 'token', text });
}

async function exit(code) {
  await flush();
  process.exit(code);
}

/** The ordinary end: the loop runs empty. process.exit may wait for ever for a background thread of V8. */
async function end(code) {
  await flush();
  process.exitCode = code;
  setTimeout(() => process.exit(code), 500).unref();
}

function crc32(bytes) {
  let crc = -1;
  for (const byte of bytes) {
    crc ^= byte;
    for (let bit = 0; bit < 8; bit += 1) crc = (crc >>> 1) ^ (0xedb88320 & -(crc & 1));
  }
  return (~crc >>> 0).toString(16).padStart(8, '0');
}

/** Reads the session so far from descriptor 4 to its end; numbers go on from its last record. */
function openRecords() {
  if (run.job.session?.provider !== 'fd' || !isStream(3)) return;
  const lines = fs.readFileSync(4, 'utf8').split('\n').filter(Boolean);
  run.lastSeq = lines.length === 0 ? 0 : JSON.parse(lines.at(-1)).seq;
  const socket = new net.Socket({ fd: 3, readable: true, writable: true });
  const waiting = new Map();
  let pending = '';
  socket.setEncoding('utf8');
  socket.on('data', (chunk) => {
    const answers = (pending + chunk).split('\n');
    pending = answers.pop();
    for (const answer of answers) {
      const { ack } = JSON.parse(answer);
      waiting.get(ack)?.();
      waiting.delete(ack);
    }
  });
  socket.on('error', () => process.exit(1));
  socket.unref();
  run.records = { socket, waiting };
}

/** Appends one session record; a durable one is waited for. */
async function record({ type, data = {}, sync = false, seq }) {
  if (run.records === null) return;
  run.lastSeq = seq ?? run.lastSeq + 1;
  const number = run.lastSeq;
  const text = JSON.stringify({ v: 1, seq: number, ts: new Date().toISOString(), type, data });
  const line = `${text.slice(0, -1)},"crc":"${crc32(Buffer.from(text))}"}`;
  const { socket, waiting } = run.records;
  const acknowledged = sync ? new Promise((resolve) => waiting.set(number, resolve)) : null;
  await new Promise((resolve) => socket.write(`${sync ? '!' : '+'}${line}\n`, resolve));
  if (acknowledged === null) return;
  socket.ref();
  await acknowledged;
  socket.unref();
}

async function asTool(name, input, work) {
  run.calls += 1;
  const id = `call_${run.calls}`;
  await emit({ type: 'tool_call', id, name, arguments: JSON.stringify(input) });
  const { content, isError } = await work();
  await emit({ type: 'tool_result', id, name, content, isError });
}

/** Runs a program to its end. With `tools` it enters the call's tools group first, as a tool should. */
function execute({ argv, tools = false, input = '' }) {
  const procs = tools ? run.job.toolsCgroup?.procs : undefined;
  const enter = ['/bin/sh', '-c', 'echo 0 >"$0" && exec "$@"', procs];
  const [file, ...rest] = procs === undefined ? argv : [...enter, ...argv];
  return new Promise((resolve) => {
    const child = spawn(file, rest, { stdio: ['pipe', 'pipe', 'pipe'] });
    let content = '';
    const add = (chunk) => {
      if (content.length < MAX_OUTPUT_BYTES) content += chunk;
    };
    child.stdout.setEncoding('utf8').on('data', add);
    child.stderr.setEncoding('utf8').on('data', add);
    child.stdin.on('error', () => {}); // it did not read its input
    child.stdin.end(input);
    child.on('error', (error) => resolve({ content: error.message, isError: true }));
    child.on('close', (code, signal) => {
      const end = code === 0 ? '' : `\n[${signal === null ? `exit code ${code}` : `killed by ${signal}`}]`;
      resolve({ content: content + end, isError: code !== 0 });
    });
  });
}

/** One request to the first model's endpoint, as it is. */
function requestModel({
  prompt = 'hello',
  path = '/chat/completions',
  method = 'POST',
  headers = {},
  body,
  model,
}) {
  const [first] = run.job.models;
  const socket = /^unix:(.+):(\/.*)$/.exec(first.baseUrl);
  const place =
    socket === null
      ? { host: new URL(first.baseUrl).hostname, port: new URL(first.baseUrl).port }
      : { socketPath: socket[1] };
  const base = socket === null ? new URL(first.baseUrl).pathname : socket[2];
  const messages = [{ role: 'user', content: prompt }];
  const text = JSON.stringify(body ?? { model: model ?? first.id, messages, stream: false });
  const options = {
    ...place,
    method,
    path: base + path,
    headers: { 'content-type': 'application/json', ...headers },
  };
  run.turns += 1;
  const http = require('node:http'); // late: it is a fifth of the time to the first event
  return new Promise((resolve) => {
    const request = http.request(options, (response) => {
      let content = `${response.statusCode} `;
      response.setEncoding('utf8').on('data', (chunk) => {
        content += chunk;
      });
      response.on('close', () =>
        resolve({ content, isError: response.statusCode >= 400 || !response.complete }),
      );
    });
    request.on('error', (error) =>
      resolve({ content: `${error.code ?? ''} ${error.message}`, isError: true }),
    );
    request.end(method === 'GET' ? undefined : text);
  });
}

async function flood({ bytes, lineBytes = BLOCK_BYTES }) {
  const line = `${JSON.stringify({ type: 'token', text: 'x'.repeat(Math.max(0, lineBytes - 27)) })}\n`;
  const together = Math.max(1, Math.floor(BLOCK_BYTES / line.length));
  for (let left = Math.ceil(bytes / line.length); left > 0; left -= together)
    await write(line.repeat(Math.min(together, left)));
}

async function allocate({ bytes }) {
  for (let held = 0; held < bytes; held += ALLOCATE_BYTES) {
    run.held.push(Buffer.alloc(Math.min(ALLOCATE_BYTES, bytes - held), 1));
    await sleep(0);
  }
}

/** A child that outlives its parents as well as it can: forked twice, its own session, deaf to HUP. */
function spawnDetached({ argv }) {
  const script = '(trap "" HUP; setsid "$@" </dev/null >/dev/null 2>&1 &)';
  return execute({ argv: ['/bin/sh', '-c', script, 'detached', ...argv] });
}

const STEPS = {
  event: (event) => emit(event),
  raw: (text) => write(text),
  stderr: async (text) => void process.stderr.write(`${text}\n`),
  sleepMs: sleep,
  tokens: async ({ count, bytes = 1 }) => {
    for (let index = 0; index < count; index += 1) await emit({ type: 'token', text: 't'.repeat(bytes) });
  },
  say,
  flood,
  exec: (input) => asTool('exec', input, () => execute(input)),
  spawnDetached: (input) => asTool('spawnDetached', input, () => spawnDetached(input)),
  forkBomb: (input) =>
    asTool('forkBomb', input, () => execute({ argv: ['/bin/sh', '-c', 'f() { f | f & }; f'] })),
  allocate,
  record,
  modelRequest: (input) => asTool('modelRequest', input, () => requestModel(input)),
  env: (input) =>
    asTool('env', input, async () => ({ content: JSON.stringify(process.env), isError: false })),
  job: (input) => asTool('job', input, async () => ({ content: JSON.stringify(run.job), isError: false })),
  ignoreTerm: async () => {
    run.ignoresTerm = true;
  },
  exit: ({ code }) => exit(code),
};

function parseScript(prompt) {
  try {
    const script = JSON.parse(prompt);
    return Array.isArray(script?.steps) ? script : null;
  } catch {
    return null; // plain words: echo them
  }
}

async function runScript({ steps }) {
  for (const step of steps) {
    const [[name, input] = []] = Object.entries(step);
    if (!Object.hasOwn(STEPS, name)) throw new Error(`unknown step ${name}`);
    await STEPS[name](input);
  }
}

/** Without a script: the prompt comes back word by word, and both sides of the talk are on record. */
async function echo({ prompt, jobId }) {
  await record({ type: 'user', data: { text: prompt, jobId } });
  for (const word of prompt.match(/\s*\S+/g) ?? []) await say(word);
  const nothing = { reasoning: '', reasoningField: null, calls: [], finish: 'stop', usage: null };
  const size = { requestLength: 0, requestImages: 0 };
  await record({
    type: 'assistant',
    data: { model: 'scripted', text: run.text, ...nothing, ...size },
    sync: true,
  });
}

async function main() {
  run.output = openOutput();
  process.on('SIGTERM', () => run.ignoresTerm || exit(143));
  process.on('SIGINT', () => exit(130));
  run.job = JSON.parse(await readInput());
  const { job } = run;
  openRecords();
  const script = parseScript(job.prompt);
  const { sessionId, engine, resumed, workspace } = job;
  if (script?.session !== false)
    await emit({ type: 'session', sessionId, resumed, engine, model: 'scripted', workspace });
  await (script === null ? echo(job) : runScript(script));
  if (script?.done !== false)
    await emit({ type: 'done', sessionId, turns: run.turns, usage: NO_USAGE, text: run.text });
  await end(0);
}

main().catch(async (error) => {
  await emit({ type: 'error', code: 'script', message: String(error?.message ?? error), retryable: false });
  await exit(1);
});
