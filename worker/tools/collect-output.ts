// Collects a command's output while it runs and a little after its shell's exit; then lets go of it without harm.
import type { Readable } from 'node:stream';
import { setTimeout as sleep } from 'node:timers/promises';
import { createOutputWindow } from './output-window.ts';

/** After the shell's exit, output counts as complete when none came for this long, at the latest after the second. */
const QUIET_MS = 50;
const DRAIN_LIMIT_MS = 500;

/** Where output comes from. A chunk is good only during the call of the listener. */
export interface OutputSource {
  /** The one listener. */
  onData(listener: (chunk: Buffer) => void): void;
  /** Called, perhaps twice, when no process holds the writing end any more. */
  onEnd(listener: () => void): void;
  pause(): void;
  resume(): void;
  /** It keeps this process alive no longer. */
  letGo(): void;
  destroy(): void;
}

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
export function collectOutput(source: OutputSource): Output {
  const window = createOutputWindow();
  let ended = false;
  let lastDataMs = Date.now();
  source.onData((chunk) => {
    window.push(chunk);
    lastDataMs = Date.now();
  });
  const closed = new Promise<void>((resolve) => {
    source.onEnd(() => {
      ended = true;
      resolve();
    });
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
      source.onData(() => {
        source.pause();
        setTimeout(() => source.resume(), QUIET_MS).unref();
      });
      source.letGo();
    },
  };
}

/** A child's own stdout, where there is no pipe. */
export function streamSource(stream: Readable & { unref?(): unknown }): OutputSource {
  let take: (chunk: Buffer) => void = () => {};
  stream.on('data', (chunk: Buffer) => take(chunk)).on('error', () => {}); // 'close' follows
  return {
    onData(listener) {
      take = listener;
    },
    onEnd: (listener) => void stream.once('end', listener).once('close', listener),
    pause: () => void stream.pause(),
    resume: () => void stream.resume(),
    letGo: () => void stream.unref?.(),
    destroy: () => void stream.destroy(),
  };
}
