// Large blocks of text as bytes, in buffers that are used again: a busy job would otherwise leave megabytes per second
// to the garbage collector, and the spawner is to stay small.

const BLOCK_BYTES = 512 * 1024;
const MIN_POOLED_BYTES = 8 * 1024;
const MAX_IDLE = 8;
const idle: Buffer[] = [];

export interface Block {
  bytes: Buffer;
  /** After this the bytes are somebody else's. */
  release(): void;
}

const noop = (): void => {};

/** The text in UTF-8. Small and very large ones get a buffer of their own. */
export function blockOf(text: string): Block {
  const length = Buffer.byteLength(text);
  if (length < MIN_POOLED_BYTES || length > BLOCK_BYTES) return { bytes: Buffer.from(text), release: noop };
  const buffer = idle.pop() ?? Buffer.allocUnsafeSlow(BLOCK_BYTES);
  buffer.write(text);
  return {
    bytes: buffer.subarray(0, length),
    release() {
      if (idle.length < MAX_IDLE) idle.push(buffer);
    },
  };
}
