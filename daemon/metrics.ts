// The metrics of djinnd in a registry of its own. Labels are bounded: never an id, an address or a caller's words.
import { Counter, collectDefaultMetrics, Gauge, Histogram, Registry } from 'prom-client';

/** `queued` is null where only the database knows and cannot be asked. */
export interface JobCounts {
  queued: number | null;
  running: number;
}

/** Read when the metrics are scraped. What is not known yet is null and then absent. */
export interface MetricSources {
  jobs(): Promise<JobCounts | null> | JobCounts | null;
  spawnerUp(): boolean;
  /** Control name to full, partial or none. */
  enforcement(): Record<string, { level: 'full' | 'partial' | 'none' }> | null;
  pool(): { total: number; idle: number; waiting: number } | null;
}

export type GatewayResult = '2xx' | '3xx' | '4xx' | '5xx' | 'refused' | 'unreachable' | 'aborted';

export interface Metrics {
  registry: Registry;
  observeRequest(labels: { method: string; route: string; status: number }, durationMs: number): void;
  streamOpened(): void;
  streamClosed(): void;
  jobAdmitted(): void;
  /** Milliseconds from admission to claim. `engine` must come from the engines table, here and below. */
  jobClaimed(waitMs: number, engine: string): void;
  jobEnded(outcome: string, engine: string | null): void;
  attemptLost(): void;
  gatewayRequest(result: GatewayResult): void;
  gatewayTokens(count: { inputTokens: number; outputTokens: number }): void;
  /** Wires the gauges; until then they are absent. */
  watch(sources: MetricSources): void;
}

const LEVELS = { none: 0, partial: 1, full: 2 } as const;
const HTTP_SECONDS = [0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 10];

export function createMetrics(): Metrics {
  const registry = new Registry();
  const registers = [registry];
  collectDefaultMetrics({ register: registry, prefix: 'djinnd_' });
  const http = new Histogram({
    name: 'djinnd_http_request_seconds',
    help: 'Time from the request line to the end of the answer, by route pattern; streams are not among them.',
    labelNames: ['method', 'route', 'status'] as const,
    buckets: HTTP_SECONDS,
    registers,
  });
  const streamed = new Counter({
    name: 'djinnd_http_streams_total',
    help: 'Event streams that were opened.',
    registers,
  });
  const streams = new Gauge({ name: 'djinnd_http_streams_open', help: 'Event streams now open.', registers });
  const gateway = new Counter({
    name: 'djinnd_gateway_requests_total',
    help: 'Requests to models, by class of the answer; refused: by the gateway itself.',
    labelNames: ['result'] as const,
    registers,
  });
  const tokens = new Counter({
    name: 'djinnd_gateway_tokens_total',
    help: 'Tokens as counted by the gateway.',
    labelNames: ['direction'] as const,
    registers,
  });
  return {
    registry,
    observeRequest: ({ method, route, status }, durationMs) =>
      http.observe({ method, route, status }, durationMs / 1000),
    streamOpened: () => {
      streamed.inc();
      streams.inc();
    },
    streamClosed: () => streams.dec(),
    ...jobMetrics(registers),
    gatewayRequest: (result) => gateway.inc({ result }),
    gatewayTokens: ({ inputTokens, outputTokens }) => {
      tokens.inc({ direction: 'input' }, inputTokens);
      tokens.inc({ direction: 'output' }, outputTokens);
    },
    watch: (sources) => watchSources(registry, sources),
  };
}

function jobMetrics(
  registers: Registry[],
): Pick<Metrics, 'jobAdmitted' | 'jobClaimed' | 'jobEnded' | 'attemptLost'> {
  const admitted = new Counter({
    name: 'djinnd_jobs_admitted_total',
    help: 'Jobs that were taken.',
    registers,
  });
  const ended = new Counter({
    name: 'djinnd_jobs_ended_total',
    help: 'Jobs that ended, by outcome and engine; none: ended before an engine was chosen.',
    labelNames: ['outcome', 'engine'] as const,
    registers,
  });
  const waited = new Histogram({
    name: 'djinnd_job_wait_seconds',
    help: 'Time from admission to claim, by engine.',
    labelNames: ['engine'] as const,
    buckets: [0.01, 0.05, 0.1, 0.5, 1, 5, 30, 120, 600, 3600],
    registers,
  });
  const lost = new Counter({
    name: 'djinnd_attempts_lost_total',
    help: 'Attempts that were lost.',
    registers,
  });
  return {
    jobAdmitted: () => admitted.inc(),
    jobClaimed: (waitMs, engine) => waited.observe({ engine }, waitMs / 1000),
    jobEnded: (outcome, engine) => ended.inc({ outcome, engine: engine ?? 'none' }),
    attemptLost: () => lost.inc(),
  };
}

function watchSources(registry: Registry, sources: MetricSources): void {
  const registers = [registry];
  new Gauge({
    name: 'djinnd_jobs',
    help: 'Jobs that wait or run now.',
    labelNames: ['state'] as const,
    registers,
    async collect() {
      const jobs = await sources.jobs();
      this.reset();
      if (jobs === null) return;
      if (jobs.queued !== null) this.set({ state: 'queued' }, jobs.queued);
      this.set({ state: 'running' }, jobs.running);
    },
  });
  new Gauge({
    name: 'djinnd_spawner_up',
    help: '1 while the spawner is connected.',
    registers,
    collect() {
      this.set(sources.spawnerUp() ? 1 : 0);
    },
  });
  new Gauge({
    name: 'djinnd_enforcement',
    help: 'What this machine enforces, by control: 2 full, 1 partial, 0 none.',
    labelNames: ['control'] as const,
    registers,
    collect() {
      this.reset();
      for (const [control, { level }] of Object.entries(sources.enforcement() ?? {})) {
        this.set({ control }, LEVELS[level]);
      }
    },
  });
  new Gauge({
    name: 'djinnd_db_connections',
    help: 'Connections of the database pool; waiting: queries without one.',
    labelNames: ['state'] as const,
    registers,
    collect() {
      this.reset();
      for (const [state, count] of Object.entries(sources.pool() ?? {})) this.set({ state }, count);
    },
  });
}
