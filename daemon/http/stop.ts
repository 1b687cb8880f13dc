// Stops the server: cuts streams, lets answers finish, then closes every connection that is left.
import { setTimeout as sleep } from 'node:timers/promises';
import type { App } from './fastify-types.ts';
import type { Streams } from './streams.ts';

const CHECK_MS = 20;

export async function stopServer(options: {
  app: App;
  streams: Streams;
  inFlight: () => number;
  graceMs: number;
}): Promise<void> {
  const { app, streams, inFlight, graceMs } = options;
  const deadline = performance.now() + graceMs;
  streams.stop();
  // Still listening: until the last answer is out, a new job is told why it is refused instead of finding no one.
  while (inFlight() > 0 && performance.now() < deadline) await sleep(CHECK_MS);
  const closed = app.close();
  // Idle keep-alive sockets, sockets that never sent a request, and whatever outlived the grace.
  app.server.closeAllConnections();
  await closed;
}
