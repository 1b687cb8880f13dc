// Collects a command's output while it runs and a little after its shell's exit; then lets go of it without harm.
import type { Readable } from 'node:stream';
import { setTimeout as sleep } from 'node:timers/promises';
import { createOutputWindow } from './output-window.ts';

/** After the shell's exit, output counts as complete when none came for this long, at the latest after the second. */
const QUIET_MS = 50;
const DRAIN_LIMIT_MS = 500;

export interface Output {
  text(): string;
  /** True when no process holds the writing end any more. */
  ended(): boolean;
  /** Resolves when what was written before the shell's exit has arrived. */
  settled(): Promise<void>;
  /** Keeps reading, slowly and for nobody, without keeping this process alive. */
  abandon(): void;
}

/** Collects from now on. */
export function collectOutput(reader: Readable & { unref?(): unknown }): Output {
  const window = createOutputWindow();
  let ended = false;
  let lastDataMs = Date.now();
  const onData = (chunk: Buffer) => {
    window.push(chunk);
    lastDataMs = Date.now();
  };
  reader.on('data', onData);
  reader.on('error', () => {}); // 'close' follows.
  const closed = new Promise<void>((resolve) => {
    const end = () => {
      ended = true;
      resolve();
    };
    reader.once('end', end);
    reader.once('close', end);
  });
  return {
    text: () => window.text(),
    ended: () => ended,
    async settled() {
      const exitMs = Date.now();
      for (;;) {
        const quietSinceMs = Math.max(exitMs, lastDataMs);
        const nowMs = Date.now();
        if (ended || nowMs - quietSinceMs >= QUIET_MS || nowMs - exitMs >= DRAIN_LIMIT_MS) return;
        await Promise.race([closed, sleep(quietSinceMs + QUIET_MS - nowMs)]);
      }
    },
    abandon() {
      if (ended) return;
      // Closing would kill background processes that still write (SIGPIPE); reading at full speed would cost a core.
      reader.off('data', onData);
      reader.on('data', () => {
        reader.pause();
        setTimeout(() => reader.resume(), QUIET_MS).unref();
      });
      reader.unref?.();
    },
  };
}
