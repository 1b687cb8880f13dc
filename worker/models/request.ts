// One HTTP POST to a model endpoint over TCP, TLS or a unix socket. Uses node:http, never fetch (100 ms and 40 MB
// per start). Reads no answer and knows no models.
import * as http from 'node:http';
import * as https from 'node:https';

export interface Target {
  tls: boolean;
  /** Options for `http.request` that say where to connect. */
  connect: { socketPath: string } | { host: string; port: number };
  hostHeader: string;
  /** Path in front of `/chat/completions`. */
  prefix: string;
}

/** Reads `https://host/v1`, `http://host:port/v1` or `unix:/path.sock:/v1`. Throws a TypeError that names the form. */
export function parseBaseUrl(baseUrl: string): Target {
  if (baseUrl.startsWith('unix:')) {
    const rest = baseUrl.slice('unix:'.length);
    const colon = rest.lastIndexOf(':');
    const socketPath = colon === -1 ? rest : rest.slice(0, colon);
    const prefix = colon === -1 ? '' : rest.slice(colon + 1);
    if (!socketPath.startsWith('/') || (prefix !== '' && !prefix.startsWith('/'))) {
      throw new TypeError(`not a model URL: ${baseUrl} (expected unix:/path.sock:/v1)`);
    }
    return {
      tls: false,
      connect: { socketPath },
      hostHeader: 'localhost',
      prefix: prefix.replace(/\/+$/, ''),
    };
  }
  let url: URL;
  try {
    url = new URL(baseUrl);
  } catch {
    throw new TypeError(`not a model URL: ${baseUrl} (expected https://host/v1)`);
  }
  if (url.protocol !== 'https:' && url.protocol !== 'http:') {
    throw new TypeError(`not a model URL: ${baseUrl} (expected https, http or unix)`);
  }
  const tls = url.protocol === 'https:';
  const port = url.port === '' ? (tls ? 443 : 80) : Number(url.port);
  return {
    tls,
    connect: { host: url.hostname.replace(/^\[|\]$/g, ''), port },
    hostHeader: url.host,
    prefix: url.pathname.replace(/\/+$/, ''),
  };
}

export interface Connections {
  http: http.Agent;
  https: https.Agent;
}

/** Connections kept open between the requests of one run. Close them with `closeConnections`. */
export function openConnections(): Connections {
  return { http: new http.Agent({ keepAlive: true }), https: new https.Agent({ keepAlive: true }) };
}

export function closeConnections(connections: Connections): void {
  connections.http.destroy();
  connections.https.destroy();
}

export interface Posted {
  response: Promise<http.IncomingMessage>;
  /** Ends the request and the answer at once. */
  destroy(): void;
}

/**
 * Sends one JSON body. `response` rejects with the socket's error. A kept connection that the server closed
 * meanwhile is not an answer: that one case is sent once more on a fresh connection.
 */
export function postJson(
  target: Target,
  body: string,
  headers: Record<string, string>,
  connections: Connections,
): Posted {
  let current: http.ClientRequest | undefined;
  let settled = false;
  const send = (
    fresh: boolean,
    resolve: (response: http.IncomingMessage) => void,
    reject: (error: Error) => void,
  ): void => {
    const request = (target.tls ? https : http).request({
      ...target.connect,
      method: 'POST',
      path: `${target.prefix}/chat/completions`,
      agent: fresh ? false : target.tls ? connections.https : connections.http,
      headers: {
        host: target.hostHeader,
        'content-type': 'application/json',
        'content-length': Buffer.byteLength(body),
        accept: 'text/event-stream, application/json',
        ...headers,
      },
    });
    current = request;
    request.setNoDelay(true);
    request.on('response', (response) => {
      settled = true;
      resolve(response);
    });
    request.on('error', (error: NodeJS.ErrnoException) => {
      const stale = request.reusedSocket && (error.code === 'ECONNRESET' || error.code === 'EPIPE');
      if (stale && !fresh && !settled) send(true, resolve, reject);
      else reject(error);
    });
    request.end(body);
  };
  const response = new Promise<http.IncomingMessage>((resolve, reject) => send(false, resolve, reject));
  return {
    response,
    destroy() {
      settled = true;
      current?.destroy();
    },
  };
}
