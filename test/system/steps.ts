// Short ways to the requests that several tests make.
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
