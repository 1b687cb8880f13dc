// The spawner's socket: newline-framed JSON, several clients, every request checked. Knows nothing of jobs.
import { chownSync, lstatSync, unlinkSync } from 'node:fs';
import { connect, createServer, type Server, type Socket } from 'node:net';
import type { Logger } from 'pino';
import { createFramer } from './frame.ts';
import { SpawnerRunsError } from './lock.ts';
import { Refusal } from './refusal.ts';
import { type CheckedRequest, checkRequest, MAX_REQUEST_BYTES, requestId } from './request.ts';
import type { WireNotice, WireResponse } from './wire.ts';

/** Requests of one client that may be in work; its socket is not read beyond that. */
const MAX_IN_WORK = 256;
/** A client that leaves this much unread is cut off; it finds everything again by `list`. */
const MAX_UNREAD_BYTES = 16 * 1024 * 1024;

export interface SpawnerServer {
  /** Sends a notice to every client. */
  notify(notice: WireNotice): void;
  close(): Promise<void>;
}

/** One connection. */
export interface Client {
  onClose(listener: () => void): void;
}

export interface ServerOptions {
  socketPath: string;
  /** Owner of the socket: the only user besides root who may connect. */
  owner: { uid: number; gid: number };
  handle(request: CheckedRequest, client: Client): Promise<unknown>;
  log: Logger;
}

/** Listens. Throws when another process answers on the socket; a stale file is replaced. */
export async function listenSpawner(options: ServerOptions): Promise<SpawnerServer> {
  const clients = new Set<Socket>();
  const server = createServer((socket) => {
    clients.add(socket);
    socket.on('close', () => clients.delete(socket));
    serveClient(socket, options);
  });
  await removeStale(options.socketPath);
  await listenPrivately(server, options);
  server.on('error', (error) => options.log.error({ err: error }, 'spawner socket'));
  return {
    notify(notice) {
      const line = `${JSON.stringify(notice)}\n`;
      for (const socket of clients) send(socket, line);
    },
    async close() {
      for (const socket of clients) socket.destroySoon();
      await new Promise<void>((resolve) => server.close(() => resolve()));
    },
  };
}

/** Binds with mode 0600 from the first moment on, then hands the socket to its owner. */
async function listenPrivately(server: Server, { socketPath, owner }: ServerOptions): Promise<void> {
  const listening = new Promise<void>((resolve, reject) => {
    server.once('listening', resolve);
    server.once('error', reject);
  });
  const umask = process.umask(0o177);
  try {
    server.listen(socketPath);
  } finally {
    process.umask(umask);
  }
  await listening;
  chownSync(socketPath, owner.uid, owner.gid);
}

async function removeStale(socketPath: string): Promise<void> {
  const present = lstatSync(socketPath, { throwIfNoEntry: false });
  if (present === undefined) return;
  if (!present.isSocket()) throw new Error(`${socketPath} exists and is not a socket`);
  await refuseSecond(socketPath);
  unlinkSync(socketPath);
}

/** Throws SpawnerRunsError when another process answers on the socket. */
export async function refuseSecond(socketPath: string): Promise<void> {
  const answered = await new Promise<boolean>((resolve) => {
    const probe = connect(socketPath, () => {
      probe.destroy();
      resolve(true);
    });
    probe.on('error', () => resolve(false));
  });
  if (answered) throw new SpawnerRunsError(`another spawner listens on ${socketPath}`);
}

function send(socket: Socket, line: string): void {
  if (socket.destroyed) return;
  socket.write(line);
  if (socket.writableLength > MAX_UNREAD_BYTES) socket.destroy();
}

function serveClient(socket: Socket, { handle, log }: ServerOptions): void {
  const framer = createFramer(MAX_REQUEST_BYTES);
  const client: Client = { onClose: (listener) => void socket.once('close', listener) };
  let inWork = 0;

  async function answer(line: string): Promise<void> {
    let message: unknown;
    let response: WireResponse;
    try {
      message = parse(line);
      const request = checkRequest(message);
      response = { id: request.id, result: await handle(request, client) };
    } catch (error) {
      if (!(error instanceof Refusal)) log.error({ err: error }, 'request failed');
      const id = requestId(message);
      // Without an id nobody can be answered: what follows on this socket cannot be trusted either.
      if (id === null) return void socket.destroy();
      response = { id, error: describe(error) };
    }
    send(socket, `${JSON.stringify(response)}\n`);
  }

  socket.on('error', (error) => log.debug({ err: error }, 'spawner client'));
  socket.on('data', (chunk) => {
    const block = framer.push(chunk);
    if (framer.dropped > 0) return void socket.destroy();
    if (block === null) return;
    for (const line of block.toString('utf8').split('\n')) {
      if (line === '') continue;
      inWork += 1;
      if (inWork >= MAX_IN_WORK) socket.pause();
      void answer(line).finally(() => {
        inWork -= 1;
        if (inWork < MAX_IN_WORK) socket.resume();
      });
    }
  });
}

function parse(line: string): unknown {
  try {
    return JSON.parse(line);
  } catch {
    throw new Refusal('bad_request', 'the request is not valid JSON');
  }
}

function describe(error: unknown): { code: Refusal['code']; message: string } {
  if (error instanceof Refusal) return { code: error.code, message: error.message };
  return { code: 'internal', message: error instanceof Error ? error.message : 'unknown failure' };
}
