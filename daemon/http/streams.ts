// The open event streams of this server: each is aborted when its client goes away or the daemon stops.
import type { ServerResponse } from 'node:http';

export interface OpenStream {
  readonly signal: AbortSignal;
  /** Why the signal fired: the client went away, or the daemon stops. */
  readonly reason: 'gone' | 'stopping' | null;
  close(): void;
}

/** Owns the set of open streams. */
export class Streams {
  readonly #open = new Map<OpenStream, (reason: 'gone' | 'stopping') => void>();
  readonly #changed: (open: boolean) => void;

  constructor(changed: (open: boolean) => void) {
    this.#changed = changed;
  }

  get size(): number {
    return this.#open.size;
  }

  /** Watches the connection of `response` from now on. The caller closes the stream in every case. */
  open(response: ServerResponse): OpenStream {
    const controller = new AbortController();
    let reason: OpenStream['reason'] = null;
    const abort = (why: 'gone' | 'stopping') => {
      reason ??= why;
      controller.abort();
    };
    const gone = () => abort('gone');
    const stream: OpenStream = {
      signal: controller.signal,
      get reason() {
        return reason;
      },
      close: () => {
        response.off('close', gone);
        if (this.#open.delete(stream)) this.#changed(false);
      },
    };
    response.once('close', gone);
    // Finds peers that vanished without a word even when nothing is being written.
    response.socket?.setKeepAlive(true, 30_000);
    this.#open.set(stream, abort);
    this.#changed(true);
    if (response.destroyed || response.socket?.destroyed !== false) gone();
    return stream;
  }

  stop(): void {
    for (const abort of [...this.#open.values()]) abort('stopping');
  }
}
