// Bounds of the text that a tool answers with. Cuts fall on code-point borders; what is cut is always counted.

/** A tool's text has at most this many UTF-8 bytes (50 KiB), notes excluded. */
export const MAX_TEXT_BYTES = 50 * 1024;

/** Any result, notes included. */
const MAX_RESULT_BYTES = 64 * 1024;

const isContinuation = (byte: number | undefined): boolean => byte !== undefined && (byte & 0xc0) === 0x80;

/** Moves a cut back to the border of the code point that it would split. Invalid bytes are borders themselves. */
function borderBefore(bytes: Buffer, cut: number): number {
  if (!isContinuation(bytes[cut])) return cut;
  for (let back = 1; back <= 3 && back <= cut; back++) {
    if (!isContinuation(bytes[cut - back])) return cut - back;
  }
  return cut;
}

/** Moves a cut forward likewise. */
function borderAfter(bytes: Buffer, cut: number): number {
  for (let ahead = 0; ahead <= 3; ahead++) {
    if (!isContinuation(bytes[cut + ahead])) return cut + ahead;
  }
  return cut;
}

/** Bytes that text shows as U+FFFD take three each, so the bound is on the text, not on the input. */
const textBytes = (bytes: Buffer): number => Buffer.byteLength(bytes.toString('utf8'));

/** Length of the longest head of `bytes` whose text has at most `maxBytes` bytes. */
export function headLength(bytes: Buffer, maxBytes: number): number {
  let low = 0;
  let high = Math.min(bytes.length, maxBytes);
  if (textBytes(bytes.subarray(0, high)) <= maxBytes) low = high;
  while (low < high) {
    const middle = Math.ceil((low + high) / 2);
    if (textBytes(bytes.subarray(0, middle)) <= maxBytes) low = middle;
    else high = middle - 1;
  }
  return borderBefore(bytes, low);
}

/** Start of the longest tail of `bytes` whose text has at most `maxBytes` bytes. */
export function tailStart(bytes: Buffer, maxBytes: number): number {
  let low = Math.max(0, bytes.length - maxBytes);
  let high = bytes.length;
  if (textBytes(bytes.subarray(low)) <= maxBytes) high = low;
  while (low < high) {
    const middle = Math.floor((low + high) / 2);
    if (textBytes(bytes.subarray(middle)) <= maxBytes) high = middle;
    else low = middle + 1;
  }
  return borderAfter(bytes, low);
}

/** Text of a tool that does not bound its own: at most 64 KiB as it is, else the first and last 25 KiB. */
export function boundText(text: string): string {
  if (text.length <= MAX_RESULT_BYTES && Buffer.byteLength(text) <= MAX_RESULT_BYTES) return text;
  const bytes = Buffer.from(text);
  const head = headLength(bytes.subarray(0, MAX_TEXT_BYTES / 2 + 4), MAX_TEXT_BYTES / 2);
  const tail = tailStart(bytes, MAX_TEXT_BYTES / 2);
  const note = `\n[… ${tail - head} bytes dropped here …]\n`;
  return `${bytes.subarray(0, head).toString('utf8')}${note}${bytes.subarray(tail).toString('utf8')}`;
}

/** One line for a list of hits: at most `maxUnits` UTF-16 units, never half a pair. `text` may be its beginning only. */
export function shortenLine(text: string, maxUnits: number, totalUnits: number = text.length): string {
  if (totalUnits <= maxUnits) return text;
  const code = text.charCodeAt(maxUnits - 1);
  const end = code >= 0xd800 && code <= 0xdbff ? maxUnits - 1 : maxUnits;
  return `${text.slice(0, end)}… [${totalUnits - end} more characters]`;
}

/** Appends a note on a line of its own. */
export function withNote(text: string, note: string): string {
  if (text === '') return note;
  return text.endsWith('\n') ? text + note : `${text}\n${note}`;
}
