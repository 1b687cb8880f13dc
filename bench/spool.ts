// Events per second through frame, check and append on one core, without and with a real program at the other end.
// Usage: node bench/spool.ts [seconds per case]
import { spawn } from 'node:child_process';
import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { type Readable, Readable as ReadableStream } from 'node:stream';
import { createEventLines } from '../daemon/spawner/event-lines.ts';
import { createSpool } from '../daemon/spawner/spool.ts';
import { newActivity, takeEvents } from '../daemon/spawner/streams.ts';

const SECONDS = Number(process.argv[2] ?? 2);
const CHUNK_BYTES = 64 * 1024;
const dir = mkdtempSync(join(tmpdir(), 'djinnd-bench-'));

const EVENTS: Record<string, string> = {
  'token, 9 characters': '{"type":"token","text":"hello wor"}',
  'token with escapes': '{"type":"token","text":"a \\"line\\"\\n"}',
  'token from another encoder': '{"type": "token", "text": "hello"}',
  tool_call: '{"type":"tool_call","id":"call_1","name":"bash","arguments":"{\\"command\\":\\"ls -l\\"}"}',
};

/** Chunks as a pipe gives them: borders anywhere. */
async function* chunksOf(line: string, endsAt: number): AsyncGenerator<Buffer> {
  const block = Buffer.from(`${line}\n`.repeat(Math.ceil((2 * CHUNK_BYTES) / line.length)));
  const period = line.length + 1;
  for (let at = 0; performance.now() < endsAt; at = (at + CHUNK_BYTES) % period) {
    yield block.subarray(at, at + CHUNK_BYTES);
  }
}

async function measure(name: string, stdout: Readable): Promise<void> {
  const lines = createEventLines({ jobId: 'job_bench', attempt: 1 });
  const spool = createSpool({ path: join(dir, `${Math.random()}.ndjson`), gid: null });
  const began = performance.now();
  const cpu = process.cpuUsage();
  const events = takeEvents(stdout, newActivity(), {
    lines,
    append: (block) => spool.append(block, lines.seq),
    maxBytes: Number.POSITIVE_INFINITY,
    onLimit: () => {},
    onNoise: () => {},
  });
  await events.done;
  const seconds = (performance.now() - began) / 1000;
  const used = process.cpuUsage(cpu);
  spool.close();
  const rate = Math.round(lines.seq / seconds);
  const perCpu = Math.round(lines.seq / ((used.user + used.system) / 1e6));
  const rss = Math.round(process.memoryUsage().rss / 1024 ** 2);
  console.log(
    `${name.padEnd(40)} ${rate.toLocaleString('en')} events/s, ${perCpu.toLocaleString('en')} per CPU second, ` +
      `${Math.round(events.bytes() / seconds / 1e6)} MB/s in, ${rss} MB resident`,
  );
}

try {
  for (const [name, line] of Object.entries(EVENTS)) {
    await measure(
      name,
      ReadableStream.from(chunksOf(line, performance.now() + SECONDS * 1000), { objectMode: true }),
    );
  }
  const line = EVENTS['token, 9 characters'] ?? '';
  const child = spawn('sh', ['-c', `yes "$1" | head -n ${Math.round(1_500_000 * SECONDS)}`, 'sh', line], {
    stdio: ['ignore', 'pipe', 'inherit'],
  });
  await measure('token, through a pipe from a program', child.stdout);
} finally {
  rmSync(dir, { recursive: true, force: true });
}
