// One HTTP POST to a model endpoint over TCP, TLS or a unix socket. Uses node:http, never fetch (100 ms and 40 MB
// per start). Reads no answer and knows no models.
import * as http from 'node:http';
import * as https from 'node:https';
import type { Target } from './base-url.ts';

const CONNECT_LIMIT_MS = 20_000;

/** Connections kept open between the requests of one run. Close them with `closeConnections`. */
export interface Connections {
  http?: http.Agent;
  https?: https.Agent;
}

function agentFor(connections: Connections, tls: boolean): http.Agent {
  // On demand: a run that talks to a socket or plain http never loads TLS.
  if (tls) connections.https ??= new https.Agent({ keepAlive: true });
  else connections.http ??= new http.Agent({ keepAlive: true });
  return (tls ? connections.https : connections.http) as http.Agent;
}

export function closeConnections(connections: Connections): void {
  connections.http?.destroy();
  connections.https?.destroy();
}

/** A host that does not answer at all is given up before the much longer wait for data. */
function limitConnect(request: http.ClientRequest, tls: boolean): void {
  request.on('socket', (socket) => {
    if (request.reusedSocket) return;
    const timer = setTimeout(() => {
      request.destroy(new Error(`no connection within ${CONNECT_LIMIT_MS} ms`));
    }, CONNECT_LIMIT_MS);
    const clear = (): void => clearTimeout(timer);
    socket.once(tls ? 'secureConnect' : 'connect', clear);
    socket.once('close', clear);
  });
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
      path: `${target.prefix}/chat/completions${target.query}`,
      agent: fresh ? false : agentFor(connections, target.tls),
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
    limitConnect(request, target.tls);
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
