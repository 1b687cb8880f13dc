// A small Jobs kept in memory: real states, idempotency, cursors and live tails, without a database or a spawner.
import { nanoid } from 'nanoid';
import { Problem } from '../../daemon/errors.ts';
import type { Caller, EventsOptions, JobBody, Jobs, JobView } from '../../daemon/http/deps.ts';

export interface MemoryJob {
  view: JobView;
  body: JobBody;
  lines: string[];
  ended: boolean;
  /** Adds lines of attempt 1 and wakes the readers. */
  emit(...events: object[]): void;
  end(outcome?: NonNullable<JobView['outcome']>): void;
}

export interface MemoryJobs extends Jobs {
  all: MemoryJob[];
  /** Readers that are inside events() now. */
  readers(): number;
  onAdmit: (job: MemoryJob) => void;
  ready: { ready: boolean; reasons: string[] };
  /** Drops lines before this index, as if they had been pruned. */
  trim(job: MemoryJob, count: number): void;
}

export function createMemoryJobs(): MemoryJobs {
  const wakeUps = new Set<() => void>();
  const trimmed = new Map<MemoryJob, number>();
  const keys = new Map<string, { job: MemoryJob; body: string }>();
  let readers = 0;
  const wake = () => {
    for (const one of [...wakeUps]) one();
  };

  const jobs: MemoryJobs = {
    all: [],
    readers: () => readers,
    onAdmit: () => undefined,
    ready: { ready: true, reasons: [] },
    trim: (job, count) => void trimmed.set(job, count),
    readiness: () => jobs.ready,
    async admit(_caller, body, idempotencyKey) {
      const key = idempotencyKey === undefined ? null : `${body.tenantId} ${idempotencyKey}`;
      const known = key === null ? undefined : keys.get(key);
      if (known !== undefined) {
        if (known.body === JSON.stringify(body)) return { job: known.job.view, created: false };
        throw new Problem('DJ_IDEMPOTENCY_MISMATCH', 'Use a new Idempotency-Key for another body.');
      }
      const job = newJob(body, wake);
      jobs.all.push(job);
      if (key !== null) keys.set(key, { job, body: JSON.stringify(body) });
      jobs.onAdmit(job);
      return { job: job.view, created: true };
    },
    get: async (caller, jobId) => find(jobs.all, caller, jobId).view,
    async list(caller, { limit, cursor, state }) {
      const from = cursor === undefined ? 0 : Number(cursor);
      if (!Number.isSafeInteger(from) || from < 0)
        throw new Problem('DJ_CURSOR_INVALID', 'Use `next` of a page.');
      const own = jobs.all.filter(
        (job) => sees(caller, job) && (state === undefined || job.view.state === state),
      );
      const page = own.reverse().slice(from, from + limit);
      const next = from + limit < own.length ? String(from + limit) : null;
      return { jobs: page.map(({ view }) => view), next };
    },
    async cancel(caller, jobId) {
      const job = find(jobs.all, caller, jobId);
      if (!job.ended) job.end('cancelled');
      return job.view;
    },
    async events(caller, jobId, options) {
      const job = find(jobs.all, caller, jobId);
      const start = startIndex(job, options.after);
      const first = trimmed.get(job) ?? 0;
      if (start < first) {
        throw new Problem('DJ_HISTORY_TRIMMED', 'Read on from firstCursor.', {
          extra: { firstCursor: `1-${first}` },
        });
      }
      return read(job, start, options);
    },
  };

  async function* read(
    job: MemoryJob,
    start: number,
    { follow, signal }: EventsOptions,
  ): AsyncGenerator<Buffer> {
    readers += 1;
    try {
      let next = start;
      while (!signal.aborted) {
        const batch = job.lines.slice(next, next + 1000);
        next += batch.length;
        if (batch.length > 0) yield Buffer.from(batch.join(''));
        else if (job.ended || !follow) return;
        else await changed(signal);
      }
    } finally {
      readers -= 1;
    }
  }

  function changed(signal: AbortSignal): Promise<void> {
    return new Promise((resolve) => {
      const settle = () => {
        wakeUps.delete(settle);
        signal.removeEventListener('abort', settle);
        resolve();
      };
      wakeUps.add(settle);
      signal.addEventListener('abort', settle, { once: true });
    });
  }
  return jobs;
}

function newJob(body: JobBody, wake: () => void): MemoryJob {
  const jobId = `job_${nanoid()}`;
  const sessionId = body.sessionId ?? nanoid();
  const ts = new Date().toISOString();
  const line = (seq: number, attempt: number, event: object) =>
    `${JSON.stringify({ seq, ts, jobId, attempt, ...event })}\n`;
  const view: JobView = {
    jobId,
    tenantId: body.tenantId,
    sessionId,
    state: 'queued',
    attempt: 0,
    createdAt: ts,
  };
  if (body.metadata !== undefined) view.metadata = body.metadata;
  const job: MemoryJob = {
    view,
    body,
    ended: false,
    lines: [line(0, 0, { type: 'job', state: 'queued', sessionId })],
    emit(...events) {
      view.state = 'running';
      view.attempt = 1;
      for (const event of events) job.lines.push(line(job.lines.length, 1, event));
      wake();
    },
    end(outcome = 'ok') {
      job.emit({ type: 'end', outcome });
      view.state = 'ended';
      view.outcome = outcome;
      view.endedAt = new Date().toISOString();
      job.ended = true;
      wake();
    },
  };
  return job;
}

function sees(caller: Caller, job: MemoryJob): boolean {
  return caller.role === 'operator' || caller.tenantIds.includes(job.view.tenantId);
}

function find(all: MemoryJob[], caller: Caller, jobId: string): MemoryJob {
  const job = all.find(({ view }) => view.jobId === jobId);
  if (job === undefined || !sees(caller, job))
    throw new Problem('DJ_NOT_FOUND', 'There is no job with this id.');
  return job;
}

function startIndex(job: MemoryJob, after: string | undefined): number {
  if (after === undefined) return 0;
  const [attempt, seq] = after.split('-').map(Number) as [number, number];
  if (attempt > 1 || (attempt === 0 && seq !== 0) || seq >= job.lines.length) {
    throw new Problem('DJ_CURSOR_INVALID', 'This job has no line with that cursor yet.');
  }
  return seq + 1;
}
