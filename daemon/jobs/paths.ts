// Where the spawner puts what djinnd reads. djinnd writes nothing there.
import { join } from 'node:path';

export const spoolDir = (stateDir: string): string => join(stateDir, 'jobs');

export const spoolPath = (stateDir: string, jobId: string, attempt: number): string =>
  join(stateDir, 'jobs', jobId, `${attempt}.ndjson`);

export const sessionRecordPath = (stateDir: string, tenantId: string, sessionId: string): string =>
  join(stateDir, 'sessions', tenantId, `${sessionId}.jsonl`);
