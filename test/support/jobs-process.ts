// The jobs side in a process of its own, so that it can be killed. argv[2]: database, spawner socket and state directory.

import { createPool } from '../../daemon/db/pool.ts';
import { startBoss } from '../../daemon/db/queue.ts';
import { createJobs } from '../../daemon/jobs/index.ts';
import { connectSpawner } from '../../daemon/spawner/client.ts';
import { GatewayRecord } from './jobs.ts';
import { silentLog } from './postgres.ts';

const { database, socket, stateDir } = JSON.parse(process.argv[2] ?? '{}');
const pool = createPool(database, silentLog);
const jobs = createJobs({
  ...{ pool, stateDir, log: silentLog, maxRunning: 16, model: { name: 'fake' } },
  boss: await startBoss(pool, silentLog),
  spawner: connectSpawner(socket, silentLog),
  gateway: new GatewayRecord(),
});
await jobs.start();
process.stdout.write('started\n');
