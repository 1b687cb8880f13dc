// A program that does what its prompt says: a JSON list of steps. Speaks the worker protocol on purpose or not.
const { readFileSync, writeSync, readSync } = require('node:fs');
const { spawn, spawnSync } = require('node:child_process');

function write(fd, data) {
  const bytes = Buffer.isBuffer(data) ? data : Buffer.from(data);
  for (let at = 0; at < bytes.length; ) {
    try {
      at += writeSync(fd, bytes, at);
    } catch (error) {
      if (error.code !== 'EAGAIN') throw error;
    }
  }
}

function readLine(fd) {
  const byte = Buffer.alloc(1);
  let line = '';
  while (readSync(fd, byte, 0, 1) === 1) {
    if (byte[0] === 10) return line;
    line += byte.toString('latin1');
  }
  return line;
}

const sleep = (ms) => new Promise((resolve) => setTimeout(resolve, ms));
const done = (job) => ({
  type: 'done',
  sessionId: job.sessionId,
  turns: 1,
  usage: { inputTokens: 1, outputTokens: 1, totalTokens: 2 },
  text: 'done',
});

const STEPS = {
  emit: (event) => write(1, `${JSON.stringify(event)}\n`),
  raw: (text) => write(1, text),
  bytes: (base64) => write(1, Buffer.from(base64, 'base64')),
  stderr: (text) => write(2, text),
  done: (_, job) => write(1, `${JSON.stringify(done(job))}\n`),
  /** Many lines of one size. */
  flood({ bytes, lineBytes }) {
    const line = `${JSON.stringify({ type: 'token', text: 'x'.repeat(lineBytes) })}\n`;
    const block = Buffer.from(line.repeat(Math.max(1, Math.floor(65536 / line.length))));
    for (let sent = 0; sent < bytes; sent += block.length) write(1, block);
  },
  /** Many short lines that are no events. */
  noise({ lines }) {
    const block = '{x\n'.repeat(20_000);
    for (let sent = 0; sent < lines; sent += 20_000) write(1, block);
  },
  /** What a shell says, both streams, as a token. */
  exec(script) {
    const { stdout } = spawnSync('/bin/sh', ['-c', `exec 2>&1; ${script}`], { encoding: 'utf8' });
    write(1, `${JSON.stringify({ type: 'token', text: stdout })}\n`);
  },
  record: (text) => write(3, `+${text}\n`),
  /** A durable record, and a token that says what was answered. */
  durable(text) {
    write(3, `!${text}\n`);
    write(1, `${JSON.stringify({ type: 'token', text: `ack ${readLine(3)}` })}\n`);
  },
  rawRecord: (text) => write(3, text),
  /** Tells as a token what descriptor 4 holds. */
  tellSession: () => write(1, `${JSON.stringify({ type: 'token', text: readFileSync(4, 'utf8') })}\n`),
  tellJob: (_, job) => write(1, `${JSON.stringify({ type: 'token', text: JSON.stringify(job) })}\n`),
  sleepMs: sleep,
  /** A child in a session of its own that holds stdout open and ignores HUP and TERM. */
  escape: (marker) => {
    const script = `process.on('SIGHUP',()=>{});process.on('SIGTERM',()=>{});setInterval(()=>{},1000);/*${marker}*/`;
    spawn(process.execPath, ['-e', script], {
      detached: true,
      stdio: ['ignore', 'inherit', 'inherit'],
    }).unref();
  },
  /** Takes memory without end, in this process. */
  eatMemory() {
    const held = [];
    for (;;) held.push(Buffer.alloc(8 * 1024 * 1024, 1));
  },
  /** Takes memory in a child that has entered the tools group, and tells how the child ended. */
  async eatInTool(_, job) {
    const script = 'echo 0 >"$1" && exec "$2" -e "const a=[];for(;;)a.push(Buffer.alloc(8388608,1))"';
    const argv = ['-c', script, 'eat', job.toolsCgroup.procs, process.execPath];
    const child = spawn('/bin/sh', argv, { stdio: 'ignore' });
    const [code, signal] = await new Promise((resolve) => child.on('exit', (...end) => resolve(end)));
    write(1, `${JSON.stringify({ type: 'token', text: `tool ${code} ${signal}` })}\n`);
  },
  /** Forks until it is refused, then goes on trying. */
  forkBomb() {
    spawn('/bin/sh', ['-c', 'f() { f & f; }; f'], { stdio: 'ignore' });
    return sleep(60_000);
  },
  ignoreTerm: () => process.on('SIGTERM', () => {}),
  onTermExit: (code) => process.on('SIGTERM', () => process.exit(code)),
  exit: (code) => process.exit(code),
  kill: (signal) => {
    process.kill(process.pid, signal);
    return sleep(1000);
  },
};

async function main() {
  if (process.argv[2] === 'exit') process.exit(Number(process.argv[3]));
  const job = JSON.parse(readFileSync(0, 'utf8'));
  for (const step of JSON.parse(job.prompt)) {
    const [name, argument] = Object.entries(step)[0];
    await STEPS[name](argument, job);
  }
  process.exit(0);
}

void main();
