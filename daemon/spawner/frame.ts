// Cuts a byte stream into lines at LF, whatever the chunk borders are. Never looks at the bytes of a line.

const LF = 0x0a;

export interface Framer {
  /**
   * Takes one chunk. Returns the whole lines that are now complete as one block (LF-terminated, bytes untouched),
   * or null when there is none. The block may share memory with the chunk: use it before the next call.
   */
  push(chunk: Buffer): Buffer | null;
  /** At the end of the stream: the last line when it has no LF (without one), or null. */
  flush(): Buffer | null;
  /** Lines that were dropped because they were longer than the cap. */
  readonly dropped: number;
}

/**
 * A framer whose lines have at most `maxLineBytes` bytes, LF included; a longer one is dropped as a whole and counted.
 * Memory: the unfinished line is kept in one buffer that doubles, so a program that writes byte by byte costs
 * at most twice its line.
 */
export function createFramer(maxLineBytes: number): Framer {
  let pending = Buffer.alloc(0);
  let pendingBytes = 0;
  let skipping = false;
  let dropped = 0;

  /** Keeps the start of an unfinished line, or begins to skip it when it is too long already. */
  function keep(part: Buffer): void {
    if (part.length === 0 || skipping) return;
    const wanted = pendingBytes + part.length;
    if (wanted >= maxLineBytes) {
      drop();
      skipping = true;
      return;
    }
    if (wanted > pending.length) {
      const grown = Buffer.allocUnsafe(Math.min(maxLineBytes, Math.max(4096, pending.length * 2, wanted)));
      pending.copy(grown, 0, 0, pendingBytes);
      pending = grown;
    }
    part.copy(pending, pendingBytes);
    pendingBytes = wanted;
  }

  function drop(): void {
    dropped += 1;
    release();
  }

  function release(): void {
    pending = Buffer.alloc(0);
    pendingBytes = 0;
  }

  return {
    push(chunk) {
      const last = chunk.lastIndexOf(LF);
      if (last < 0) {
        keep(chunk);
        return null;
      }
      let from = 0;
      let head: Buffer | null = null;
      if (skipping) {
        skipping = false;
        from = chunk.indexOf(LF) + 1;
      } else if (pendingBytes > 0) {
        const first = chunk.indexOf(LF) + 1;
        if (pendingBytes + first > maxLineBytes) {
          drop();
          from = first;
        } else {
          head = pending.subarray(0, pendingBytes);
        }
      }
      const body = cutLongLines(chunk.subarray(from, last + 1));
      const block = head === null ? body : Buffer.concat([head, body]);
      if (head !== null) release();
      keep(chunk.subarray(last + 1));
      return block.length === 0 ? null : block;
    },
    flush() {
      if (pendingBytes === 0) return null;
      const rest = Buffer.from(pending.subarray(0, pendingBytes));
      release();
      return rest;
    },
    get dropped() {
      return dropped;
    },
  };

  /** Only a chunk larger than the cap can hold a whole line that is too long. */
  function cutLongLines(lines: Buffer): Buffer {
    if (lines.length <= maxLineBytes) return lines;
    const kept: Buffer[] = [];
    for (let at = 0; at < lines.length; ) {
      const end = lines.indexOf(LF, at) + 1;
      if (end - at > maxLineBytes) dropped += 1;
      else kept.push(lines.subarray(at, end));
      at = end;
    }
    return Buffer.concat(kept);
  }
}
