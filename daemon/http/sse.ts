// Server-sent events: the same lines, each as one message with its cursor as id. Reads only the fixed prefix of a line.
import type { StreamFormat } from './stream.ts';

const LF = 10;
const CR = 13;
const SPACE = 32;
/** Longest prefix: 9 + 15 digits, a time stamp, a job id of 68 and the names. */
const PREFIX_BYTES = 192;
const PREFIX = /^\{"seq":(\d{1,15}),"ts":"[^"]{1,40}","jobId":"[^"]{1,80}","attempt":(\d{1,9})[,}]/;

const DATA = Buffer.from('data: ');
const END = Buffer.from('\n\n');

export const SSE: StreamFormat = {
  contentType: 'text/event-stream',
  heartbeat: Buffer.from(': heartbeat\n\n'),
  wrap: wrapLines,
};

/** Turns whole LF-terminated lines into messages. A raw CR, white space in JSON but a line end here, becomes a space. */
export function wrapLines(lines: Buffer): Buffer {
  const parts: Buffer[] = [];
  let start = 0;
  while (start < lines.length) {
    const found = lines.indexOf(LF, start);
    const end = found === -1 ? lines.length : found;
    if (end > start) parts.push(...message(lines.subarray(start, end)));
    start = end + 1;
  }
  return Buffer.concat(parts);
}

function message(line: Buffer): Buffer[] {
  const match = PREFIX.exec(line.toString('latin1', 0, PREFIX_BYTES));
  const id = match === null ? [] : [Buffer.from(`id: ${match[2]}-${match[1]}\n`)];
  return [...id, DATA, withoutCr(line), END];
}

function withoutCr(line: Buffer): Buffer {
  if (!line.includes(CR)) return line;
  const copy = Buffer.from(line);
  for (let at = copy.indexOf(CR); at !== -1; at = copy.indexOf(CR, at + 1)) copy[at] = SPACE;
  return copy;
}
