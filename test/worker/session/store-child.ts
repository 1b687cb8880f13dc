// Opens a session store, appends what its argument says and prints what it found. Run by store.test.ts.
import { openDescriptorStore } from '../../../worker/session/descriptors.ts';
import { openFileStore } from '../../../worker/session/file.ts';
import type { SessionRecord } from '../../../worker/session/record.ts';
import type { StoreError } from '../../../worker/session/store.ts';

interface Task {
  provider: 'file' | 'fd';
  dir: string;
  texts: string[];
  durable?: boolean;
  /** Stay until killed. */
  hold?: boolean;
}

const task = JSON.parse(process.argv[2] as string) as Task;
const found: unknown[] = [];
const onRecord = (record: SessionRecord): void => void found.push([record.seq, record.data]);
const say = (value: unknown): void => void process.stdout.write(`${JSON.stringify(value)}\n`);
try {
  const store =
    task.provider === 'file'
      ? openFileStore({ dir: task.dir, sessionId: 's', onRecord })
      : await openDescriptorStore({ recordsFd: 3, logFd: 4, onRecord });
  const seqs: number[] = [];
  for (const text of task.texts) {
    const record = await store.append('user', { text }, { durable: task.durable ?? false });
    seqs.push(record.seq);
  }
  say({ found, count: store.found, damage: store.damage, seqs });
  if (task.hold === true) setInterval(() => {}, 1000);
  else await store.close();
} catch (error) {
  say({ error: (error as StoreError).code, message: (error as Error).message });
}
