// Writes a heartbeat on a stream that has been quiet for a while. Never inside a line, never to a client that does not read.
import type { ServerResponse } from 'node:http';

const LF = 10;

export interface Heartbeat {
  /** Tells that these bytes are about to be written. */
  wrote(bytes: Buffer): void;
  stop(): void;
}

export function startHeartbeat(response: ServerResponse, beat: Buffer, quietMs: number): Heartbeat {
  let betweenLines = true;
  const timer = setInterval(() => {
    if (betweenLines && !response.writableNeedDrain && !response.destroyed) response.write(beat);
  }, quietMs);
  timer.unref();
  return {
    wrote(bytes) {
      betweenLines = bytes[bytes.length - 1] === LF;
      timer.refresh();
    },
    stop: () => clearInterval(timer),
  };
}
