// A spawner with the plain launcher in a process of its own, so that it can be killed. argv[2]: its directories as JSON.
import { runSpawner } from '../../daemon/spawner/index.ts';
import { plainOptions } from './spawner.ts';

const { cgroupRoot, ...dirs } = JSON.parse(process.argv[2] ?? '{}');
const spawner = await runSpawner({ ...plainOptions(dirs), cgroupRoot });
process.on('SIGTERM', () => {
  void spawner.close().then(() => process.exit(0));
});
process.stdout.write('listening\n');
