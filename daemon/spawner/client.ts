// djinnd's side of the spawner's socket: calls, notices, and a connection that comes back by itself.
import { EventEmitter } from 'node:events';
import { connect, type Socket } from 'node:net';
import type { Logger } from 'pino';
import { createFramer } from './frame.ts';
import type { AttemptRef, Method, Methods, WireErrorCode, WireNotice, WireResponse } from './wire.ts';

/** The spawner refused the call. */
export class SpawnerError extends Error {
  readonly code: WireErrorCode;

  constructor(code: WireErrorCode, message: string) {
    super(message);
    this.name = 'SpawnerError';
    this.code = code;
  }
}

/** The call has no answer. `sent: false`: it never left, so it had no effect; otherwise nothing is known. */
export class SpawnerLost extends Error {
  readonly sent: boolean;

  constructor(message: string, sent: boolean) {
    super(message);
    this.name = 'SpawnerLost';
    this.sent = sent;
  }
}

export interface SpawnerEvents {
  running: [AttemptRef];
  sealed: [AttemptRef & { last: 'end' | 'lost' }];
  /** Connected, for the first time or again: notices may have been missed, so `list`. */
  up: [];
  down: [];
}

export interface SpawnerClient {
  /** Rejects with `SpawnerError` when refused and with `SpawnerLost` when unanswered. */
  call<M extends Method>(method: M, params: Methods[M]['params']): Promise<Methods[M]['result']>;
  /** Returns the function that ends the subscription. */
  on<E extends keyof SpawnerEvents>(event: E, listener: (...args: SpawnerEvents[E]) => void): () => void;
  readonly connected: boolean;
  close(): void;
}

const MAX_ANSWER_BYTES = 32 * 1024 * 1024;
const ANSWER_TIMEOUT_MS = 60_000;
const RETRY_MS = [20, 50, 100, 200, 500, 1000];

interface Pending {
  resolve(result: unknown): void;
  reject(error: Error): void;
  timer: NodeJS.Timeout;
}

/** Connects and stays connected until `close()`. Returns at once; `up` tells when there is a connection. */
export function connectSpawner(socketPath: string, log: Logger): SpawnerClient {
  const events = new EventEmitter<SpawnerEvents>();
  const pending = new Map<number, Pending>();
  let socket: Socket | null = null;
  let connected = false;
  let closed = false;
  let retry: NodeJS.Timeout | undefined;
  let failures = 0;
  let nextId = 1;

  function open(): void {
    const framer = createFramer(MAX_ANSWER_BYTES);
    const current = connect(socketPath);
    socket = current;
    current.on('connect', () => {
      failures = 0;
      connected = true;
      events.emit('up');
    });
    current.on('data', (chunk) => {
      const block = framer.push(chunk);
      if (framer.dropped > 0) current.destroy();
      for (const line of block?.toString('utf8').split('\n') ?? []) if (line !== '') receive(line);
    });
    current.on('error', (error) => log.debug({ err: error }, 'spawner connection'));
    current.on('close', lost);
  }

  function lost(): void {
    const wasConnected = connected;
    connected = false;
    socket = null;
    for (const id of [...pending.keys()]) settle(id)?.reject(new SpawnerLost('the spawner went away', true));
    if (wasConnected) events.emit('down');
    if (closed) return;
    const delayMs = RETRY_MS[Math.min(failures, RETRY_MS.length - 1)] ?? 1000;
    failures += 1;
    retry = setTimeout(open, delayMs);
  }

  function settle(id: number): Pending | undefined {
    const call = pending.get(id);
    if (call === undefined) return undefined;
    pending.delete(id);
    clearTimeout(call.timer);
    return call;
  }

  function receive(line: string): void {
    let message: WireResponse | WireNotice;
    try {
      message = JSON.parse(line) as WireResponse | WireNotice;
    } catch {
      log.error('the spawner sent a line that is not JSON');
      socket?.destroy();
      return;
    }
    if ('notice' in message) {
      const { notice, ...rest } = message;
      if (notice === 'running') events.emit('running', rest);
      else if (notice === 'sealed') events.emit('sealed', rest as SpawnerEvents['sealed'][0]);
      return;
    }
    const call = settle(message.id);
    if ('error' in message) call?.reject(new SpawnerError(message.error.code, message.error.message));
    else call?.resolve(message.result);
  }

  open();
  return {
    call(method, params) {
      return new Promise((resolve, reject) => {
        if (socket === null || !connected)
          return reject(new SpawnerLost('the spawner is not connected', false));
        const id = nextId;
        nextId += 1;
        const timer = setTimeout(() => {
          settle(id)?.reject(new SpawnerLost(`no answer to ${method} in ${ANSWER_TIMEOUT_MS} ms`, true));
        }, ANSWER_TIMEOUT_MS);
        pending.set(id, { resolve: resolve as (result: unknown) => void, reject, timer });
        socket.write(`${JSON.stringify({ id, method, params })}\n`);
      });
    },
    on(event, listener) {
      events.on(event, listener as never);
      return () => events.off(event, listener as never);
    },
    get connected() {
      return connected;
    },
    close() {
      closed = true;
      clearTimeout(retry);
      socket?.destroy();
    },
  };
}
