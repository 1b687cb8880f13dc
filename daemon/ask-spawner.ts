// One question to the running spawner, for commands: connects, asks, disconnects.
import { join } from 'node:path';
import { createLogger } from './log.ts';
import { connectSpawner } from './spawner/client.ts';
import type { Method, Methods } from './spawner/wire.ts';

const CONNECT_TIMEOUT_MS = 10_000;

/** Rejects when no spawner answers on this run directory, or when it refuses. */
export async function askSpawner<M extends Method>(
  runDir: string,
  method: M,
  params: Methods[M]['params'],
): Promise<Methods[M]['result']> {
  const client = connectSpawner(join(runDir, 'spawner.sock'), createLogger({ logLevel: 'silent' }, 'ask'));
  try {
    await new Promise<void>((resolve, reject) => {
      const timer = setTimeout(
        () => reject(new Error(`no spawner answers in ${runDir}`)),
        CONNECT_TIMEOUT_MS,
      );
      client.on('up', () => {
        clearTimeout(timer);
        resolve();
      });
    });
    return await client.call(method, params);
  } finally {
    client.close();
  }
}
