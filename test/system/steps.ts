// Short ways to the requests that several tests make.
import pg from 'pg';
import { EMBEDDED_DATABASE } from '../../daemon/db/embedded.ts';
import type { TestDaemon } from '../support/daemon.ts';

/** Cancels the running job of a session. */
export async function cancel(daemon: TestDaemon, key: string, sessionId: string): Promise<void> {
  const list = (await (await daemon.get(key, '/v1/jobs')).json()) as {
    jobs: Record<string, string>[];
  };
  const [running] = list.jobs.filter((job) => job.sessionId === sessionId && job.state === 'running');
  if (running === undefined) throw new Error(`no job of session ${sessionId} is running`);
  const headers = { authorization: `Bearer ${key}` };
  const answer = await fetch(`${daemon.url}/v1/jobs/${running.jobId}/cancel`, { method: 'POST', headers });
  if (!answer.ok) throw new Error(`cancel: ${answer.status} ${await answer.text()}`);
}

/** One statement on the embedded database, as the operator; in the guest ten times faster than `djinnd sql`. */
export async function query(daemon: TestDaemon, text: string, values: unknown[] = []): Promise<void> {
  const client = new pg.Client({
    host: `${daemon.runDir}/pg`,
    user: 'djinnd_operator',
    database: EMBEDDED_DATABASE,
  });
  await client.connect();
  await client.query(text, values).finally(() => client.end());
}
