// Runs the migrations of one database in a process of its own, so that a test can start several or kill one.
// Arguments: socket directory, user, database, migrations directory.
import { migrate } from '../../daemon/db/migrate.ts';
import { silentLog } from './postgres.ts';

const [host = '', user = '', database = '', dir = ''] = process.argv.slice(2);
process.stdout.write('begun\n');
const { applied } = await migrate({ host, user, database }, dir, silentLog);
process.stdout.write(`${JSON.stringify(applied)}\n`);
