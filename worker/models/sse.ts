// Splits a byte stream into server-sent events by the WHATWG rules. Pure and incremental; knows nothing of models.

const LF = 0x0a;
const CR = 0x0d;

/** One event may have at most this many bytes; more is not an answer but an attack or a bug. */
export const MAX_EVENT_BYTES = 16 * 1024 * 1024;

export interface SseParser {
  /** The data of each event that the bytes complete. Throws a RangeError when one event grows too large. */
  feed(bytes: Buffer): string[];
  /** The data of an event whose blank line never came, or null. */
  finish(): string | null;
}

/**
 * Lines end in LF, CRLF or CR (a CRLF may be cut between two reads), a leading BOM is dropped, lines that start
 * with a colon are comments, one space after the colon of a field is dropped, several data lines join with LF, a
 * blank line dispatches. Only complete lines are decoded, so a character cut by a read stays whole.
 */
export function createSseParser(): SseParser {
  let parts: Buffer[] = [];
  let heldBytes = 0;
  let skipLf = false;
  let firstLine = true;
  let data: string[] | null = null;

  const hold = (bytes: Buffer): void => {
    parts.push(bytes);
    heldBytes += bytes.length;
    if (heldBytes > MAX_EVENT_BYTES) throw new RangeError(`an event has more than ${MAX_EVENT_BYTES} bytes`);
  };

  const takeLine = (rest: Buffer): string => {
    let text: string;
    if (parts.length === 0) text = rest.toString('utf8');
    else {
      parts.push(rest);
      text = Buffer.concat(parts).toString('utf8');
      parts = [];
    }
    if (firstLine) {
      firstLine = false;
      if (text.charCodeAt(0) === 0xfeff) return text.slice(1);
    }
    return text;
  };

  const readField = (line: string): void => {
    if (!line.startsWith('data')) return;
    if (line.length === 4) data = [...(data ?? []), ''];
    else if (line[4] === ':') {
      const value = line.slice(line[5] === ' ' ? 6 : 5);
      if (data === null) data = [value];
      else data.push(value);
      heldBytes += value.length;
    }
  };

  const dispatch = (events: string[]): void => {
    if (data !== null) events.push(data.length === 1 ? (data[0] as string) : data.join('\n'));
    data = null;
    heldBytes = 0;
  };

  return {
    feed(bytes) {
      const events: string[] = [];
      let start = 0;
      let lf = -2;
      let cr = -2;
      while (start < bytes.length) {
        if (skipLf) {
          skipLf = false;
          if (bytes[start] === LF) {
            start += 1;
            continue;
          }
        }
        if (lf !== -1 && lf < start) lf = bytes.indexOf(LF, start);
        if (cr !== -1 && cr < start) cr = bytes.indexOf(CR, start);
        const end = lf === -1 ? cr : cr === -1 ? lf : Math.min(lf, cr);
        if (end === -1) break;
        const line = takeLine(bytes.subarray(start, end));
        if (line === '') dispatch(events);
        else readField(line);
        skipLf = bytes[end] === CR;
        start = end + 1;
      }
      if (start < bytes.length) hold(bytes.subarray(start));
      return events;
    },
    finish() {
      if (parts.length > 0) readField(takeLine(Buffer.alloc(0)));
      const events: string[] = [];
      dispatch(events);
      return events[0] ?? null;
    },
  };
}
