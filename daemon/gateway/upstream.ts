// Requests to a model provider over https, http or a unix socket. The only place that holds the key on its way out.
import {
  type ClientRequest,
  Agent as HttpAgent,
  request as httpRequest,
  type IncomingMessage,
} from 'node:http';
import { Agent as HttpsAgent, request as httpsRequest } from 'node:https';
import type { Upstream } from './types.ts';

export interface Endpoint {
  secure: boolean;
  host: string;
  port: number | null;
  socketPath: string | null;
  /** Path and query of the chat completions. */
  path: string;
}

/** Why no answer came: a short code, never a message, which may hold addresses or header values. */
export class UpstreamUnreachable extends Error {
  readonly code: string;
  constructor(code: string) {
    super(`upstream unreachable: ${code}`);
    this.code = code;
  }
}

/** Reads a base URL. Throws an Error that says what to write; a user name or password in it is refused. */
export function parseEndpoint(baseUrl: string): Endpoint {
  const unix = /^unix:(\/[^:]+)(?::(\/.*)?)?$/.exec(baseUrl);
  if (unix !== null) {
    const path = `${(unix[2] ?? '').replace(/\/+$/, '')}/chat/completions`;
    return { secure: false, host: 'localhost', port: null, socketPath: unix[1] ?? '', path };
  }
  const url = URL.parse(baseUrl);
  if (url === null || !/^https?:$/.test(url.protocol)) {
    throw new Error('the base URL of a model must be https://host/v1, http://host/v1 or unix:/path:/v1');
  }
  if (url.username !== '' || url.password !== '') {
    throw new Error('the base URL of a model must not hold a user name or password: give the key by itself');
  }
  return {
    secure: url.protocol === 'https:',
    host: url.hostname.replace(/^\[(.*)\]$/, '$1'),
    port: url.port === '' ? null : Number(url.port),
    socketPath: null,
    path: `${url.pathname.replace(/\/+$/, '')}/chat/completions${url.search}`,
  };
}

export interface UpstreamRequest {
  upstream: Upstream;
  body: Buffer;
  stream: boolean;
  signal: AbortSignal;
  connectMs: number;
  silenceMs: number;
}

/** Owns the kept-alive connections to all upstreams. */
export class UpstreamConnections {
  readonly #http = new HttpAgent({ keepAlive: true, maxFreeSockets: 64 });
  readonly #https = new HttpsAgent({ keepAlive: true, maxFreeSockets: 64, rejectUnauthorized: true });

  /** Resolves with the answer's head. Rejects with UpstreamUnreachable, also when aborted (code ABORTED). */
  async send(request: UpstreamRequest): Promise<IncomingMessage> {
    try {
      return await this.#attempt(request, true);
    } catch (error) {
      // A kept-alive connection that the upstream had just closed, and others may be as dead: a new one is made.
      if (error instanceof StaleConnection && !request.signal.aborted)
        return await this.#attempt(request, false);
      throw error;
    }
  }

  #attempt(wanted: UpstreamRequest, keptAlive: boolean): Promise<IncomingMessage> {
    const { upstream, body, stream, signal, silenceMs } = wanted;
    const endpoint = parseEndpoint(upstream.baseUrl);
    return new Promise((resolve, reject) => {
      const request = (endpoint.secure ? httpsRequest : httpRequest)({
        method: 'POST',
        host: endpoint.host,
        path: endpoint.path,
        ...(endpoint.port === null ? {} : { port: endpoint.port }),
        ...(endpoint.socketPath === null ? {} : { socketPath: endpoint.socketPath }),
        agent: keptAlive && (endpoint.secure ? this.#https : this.#http),
        signal,
        headers: {
          'content-type': 'application/json',
          'content-length': body.length,
          accept: stream ? 'text/event-stream' : 'application/json',
          'accept-encoding': 'identity',
          'user-agent': 'djinnd',
          ...(upstream.apiKey === null ? {} : { authorization: `Bearer ${upstream.apiKey}` }),
        },
      });
      limitConnect(request, endpoint.secure, wanted.connectMs);
      request.setTimeout(silenceMs, () => request.destroy(new UpstreamUnreachable('ETIMEDOUT')));
      request.on('response', resolve);
      request.on('error', (error: NodeJS.ErrnoException) => reject(classify(error, request, signal)));
      request.end(body);
    });
  }

  close(): void {
    this.#http.destroy();
    this.#https.destroy();
  }
}

class StaleConnection extends UpstreamUnreachable {}

function classify(error: NodeJS.ErrnoException, request: ClientRequest, signal: AbortSignal): Error {
  if (signal.aborted) return new UpstreamUnreachable('ABORTED');
  if (error instanceof UpstreamUnreachable) return error;
  const code = /^[A-Z][A-Z0-9_]{1,63}$/.test(error.code ?? '') ? String(error.code) : 'EFAILED';
  const stale = request.reusedSocket && (code === 'ECONNRESET' || code === 'EPIPE');
  return stale ? new StaleConnection(code) : new UpstreamUnreachable(code);
}

/** Node has no connect timeout of its own. */
function limitConnect(request: ClientRequest, secure: boolean, connectMs: number): void {
  request.once('socket', (socket) => {
    if (!socket.connecting) return;
    const timer = setTimeout(() => request.destroy(new UpstreamUnreachable('ECONNTIMEOUT')), connectMs);
    const done = () => clearTimeout(timer);
    socket.once(secure ? 'secureConnect' : 'connect', done);
    request.once('close', done);
  });
}
