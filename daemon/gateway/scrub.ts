// Takes a secret out of a stream of bytes, also in its base64, base64url, percent-encoded and JSON forms, whatever the chunk
// borders. Holds back only bytes that may be the beginning of the secret.

const MASK = Buffer.from('[masked]');
/** Shorter pieces would match ordinary text. */
const LEAST_BYTES = 8;

export interface Scrubber {
  /** The bytes that may go on now. The same buffer when there is nothing to hide. */
  push(chunk: Buffer): Buffer;
  /** What was held back, at the end. */
  flush(): Buffer;
}

/** A secret of less than 8 bytes is none and passes. */
export function createScrubber(secret: string | null): Scrubber {
  const needles = secret === null ? [] : secretForms(secret);
  const longest = Math.max(0, ...needles.map(({ length }) => length));
  let held: Buffer = Buffer.alloc(0);
  if (needles.length === 0) return { push: (chunk) => chunk, flush: () => held };
  return {
    push(chunk) {
      const clean = replaceAll(held.length === 0 ? chunk : Buffer.concat([held, chunk]), needles);
      const keep = clean.length - openTail(clean, needles, longest);
      held = clean.subarray(keep);
      return keep === clean.length ? clean : clean.subarray(0, keep);
    },
    flush() {
      const rest = held;
      held = Buffer.alloc(0);
      return rest;
    },
  };
}

/** A short text without the secret. */
export function scrubText(text: string, secret: string | null): string {
  const scrubber = createScrubber(secret);
  return Buffer.concat([scrubber.push(Buffer.from(text)), scrubber.flush()]).toString();
}

/** All forms under which the secret is looked for, the longest first. */
export function secretForms(secret: string): Buffer[] {
  const percent = encodeURIComponent(secret);
  const json = JSON.stringify(secret).slice(1, -1);
  const forms = new Set([
    ...[secret, percent, percent.replaceAll(/%../g, (code) => code.toLowerCase())],
    // As PHP and .NET write JSON.
    ...[json, json.replaceAll('/', '\\/'), json.replaceAll('+', '\\u002B')],
  ]);
  for (const shift of [0, 1, 2]) {
    const padded = Buffer.concat([Buffer.alloc(shift), Buffer.from(secret)]);
    // The first and last characters also depend on the bytes around the secret.
    const first = shift === 0 ? 0 : shift + 1;
    const whole = padded.toString('base64').replaceAll('=', '');
    const inner = whole.slice(first, padded.length % 3 === 0 ? undefined : -1);
    forms.add(inner);
    forms.add(inner.replaceAll('+', '-').replaceAll('/', '_'));
  }
  return [...forms]
    .map((form) => Buffer.from(form))
    .filter(({ length }) => length >= LEAST_BYTES)
    .sort((a, b) => b.length - a.length);
}

function replaceAll(bytes: Buffer, needles: readonly Buffer[]): Buffer {
  let result = bytes;
  for (const needle of needles) {
    let at = result.indexOf(needle);
    if (at === -1) continue;
    const parts: Buffer[] = [];
    let from = 0;
    for (; at !== -1; at = result.indexOf(needle, from)) {
      parts.push(result.subarray(from, at), MASK);
      from = at + needle.length;
    }
    result = Buffer.concat([...parts, result.subarray(from)]);
  }
  return result;
}

/** Length of the longest tail that begins a needle. */
function openTail(bytes: Buffer, needles: readonly Buffer[], longest: number): number {
  const first = Math.max(0, bytes.length - longest + 1);
  for (let at = first; at < bytes.length; at += 1) {
    const size = bytes.length - at;
    const begins = needles.some(
      (needle) =>
        size < needle.length &&
        needle[0] === bytes[at] &&
        needle.compare(bytes, at, bytes.length, 0, size) === 0,
    );
    if (begins) return size;
  }
  return 0;
}
