// The unix socket of one job: listens, serves, and on close aborts everything that is in flight.
import { chmod, rename, rm, stat } from 'node:fs/promises';
import { createServer, type IncomingMessage, type ServerResponse } from 'node:http';
import type { Socket } from 'node:net';
import { join } from 'node:path';

export type Serve = (
  request: IncomingMessage,
  response: ServerResponse,
  signal: AbortSignal,
) => Promise<void>;

/** sun_path holds 108 bytes with its NUL. */
const MOST_PATH_BYTES = 107;
/** Tenant code can open as many connections as it likes; this many are held. */
const MOST_CONNECTIONS = 64;

/** Owns one listening socket, its connections and the requests on them. */
export class JobSocket {
  readonly path: string;
  readonly #server = createServer({
    requestTimeout: 120_000,
    headersTimeout: 30_000,
    keepAliveTimeout: 60_000,
  });
  readonly #aborts = new Set<AbortController>();
  readonly #requests = new Set<Promise<void>>();
  #inode: number | null = null;
  #closed: Promise<void> | null = null;

  /** `onFault` is told of faults of our own; the client then gets a broken connection. */
  constructor(gatewayDir: string, serve: Serve, onFault: (error: unknown) => void) {
    this.path = join(gatewayDir, 'model.sock');
    const server = this.#server;
    server.maxConnections = MOST_CONNECTIONS;
    server.on('request', (request: IncomingMessage, response: ServerResponse) => {
      this.#track(request, response, serve, onFault);
    });
    server.on('connect', (_request, socket) => refuseRaw(socket as Socket, 405));
    server.on('upgrade', (_request, socket) => refuseRaw(socket as Socket, 403));
    server.on('checkExpectation', (_request, response: ServerResponse) => response.writeHead(417).end());
    server.on('clientError', (_error, socket) => refuseRaw(socket as Socket, 400));
  }

  /** Takes the place of whatever was at the path, atomically and already with mode 0660. */
  async listen(): Promise<void> {
    const name = `${this.path.slice(0, -'model.sock'.length)}.new`;
    if (Buffer.byteLength(this.path) > MOST_PATH_BYTES) {
      throw new Error(`the gateway's socket path has more than ${MOST_PATH_BYTES} bytes: ${this.path}`);
    }
    await rm(name, { force: true });
    await new Promise<void>((resolve, reject) => {
      this.#server.once('error', reject);
      this.#server.listen(name, () => {
        this.#server.off('error', reject);
        resolve();
      });
    });
    this.#server.on('error', () => undefined);
    await chmod(name, 0o660);
    this.#inode = (await stat(name)).ino;
    await rename(name, this.path);
  }

  /** Takes no more requests, lets those in flight finish within the grace, aborts the rest, removes the socket. Idempotent. */
  close(graceMs = 0): Promise<void> {
    this.#closed ??= this.#close(graceMs);
    return this.#closed;
  }

  async #close(graceMs: number): Promise<void> {
    const closed = new Promise<void>((resolve) => this.#server.close(() => resolve()));
    await this.#unlink();
    this.#server.closeIdleConnections();
    const timer = setTimeout(() => this.#abort(), graceMs);
    if (graceMs === 0) this.#abort();
    while (this.#requests.size > 0) await Promise.allSettled([...this.#requests]);
    clearTimeout(timer);
    this.#server.closeAllConnections();
    await closed;
  }

  #abort(): void {
    for (const controller of this.#aborts) controller.abort();
    this.#server.closeAllConnections();
  }

  /** Leaves a socket alone that a successor has put there. */
  async #unlink(): Promise<void> {
    const found = await stat(this.path).catch(() => null);
    if (found !== null && found.ino === this.#inode) await rm(this.path, { force: true });
  }

  #track(
    request: IncomingMessage,
    response: ServerResponse,
    serve: Serve,
    onFault: (error: unknown) => void,
  ): void {
    if (this.#closed !== null) {
      request.socket.destroy();
      return;
    }
    const controller = new AbortController();
    this.#aborts.add(controller);
    response.once('close', () => {
      if (!response.writableFinished) controller.abort();
    });
    response.on('error', () => undefined);
    const done = Promise.resolve()
      .then(() => serve(request, response, controller.signal))
      .catch((error: unknown) => {
        response.destroy();
        onFault(error);
      })
      .finally(() => {
        this.#aborts.delete(controller);
        this.#requests.delete(done);
      });
    this.#requests.add(done);
  }
}

/** Answers where there is no ServerResponse. */
function refuseRaw(socket: Socket, status: 400 | 403 | 405): void {
  if (socket.writable) {
    socket.end(`HTTP/1.1 ${status} Refused\r\nContent-Length: 0\r\nConnection: close\r\n\r\n`, () =>
      socket.destroy(),
    );
  } else {
    socket.destroy();
  }
}
