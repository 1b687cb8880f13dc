// A spawner's client without a spawner: writes real spool files and lets a test decide what each call answers,
// loses or refuses. For the faults that a real spawner cannot be made to show on demand.
import { EventEmitter } from 'node:events';
import { appendFileSync, existsSync, mkdirSync, mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import {
  type SpawnerClient,
  SpawnerError,
  type SpawnerEvents,
  SpawnerLost,
} from '../../daemon/spawner/client.ts';
import type {
  AttemptRef,
  EnforcementReport,
  Method,
  Methods,
  StartParams,
  WireErrorCode,
} from '../../daemon/spawner/wire.ts';

/** What happens to a call before it is answered; undefined: nothing special. */
export type Fault = 'lose_before' | 'lose_after' | WireErrorCode | undefined;

export class StandInSpawner implements SpawnerClient {
  readonly stateDir = mkdtempSync(join(tmpdir(), 'djinnd-standin-'));
  readonly calls: string[] = [];
  readonly started: StartParams[] = [];
  readonly enforcement: EnforcementReport = {
    mode: 'best-effort',
    refused: false,
    hierarchy: 'none',
    kernel: 'test',
    controls: {},
  };
  connected = true;
  /** Called for every call; the test's script. */
  fault: (method: Method, params: object) => Fault = () => undefined;
  /** Called once `go` has come: writes lines, usually to the end. */
  program: (params: StartParams) => void | Promise<void> = (params) => this.seal(params);
  readonly #events = new EventEmitter<SpawnerEvents>();
  readonly #attempts = new Map<string, StartParams & { gone: boolean; seq: number }>();
  readonly #running = new Set<string>();
  readonly #forgotten = new Set<string>();

  on<E extends keyof SpawnerEvents>(event: E, listener: (...args: SpawnerEvents[E]) => void): () => void {
    this.#events.on(event, listener as never);
    return () => this.#events.off(event, listener as never);
  }

  async call<M extends Method>(method: M, params: Methods[M]['params']): Promise<Methods[M]['result']> {
    const { jobId, attempt } = params as Partial<AttemptRef>;
    this.calls.push(jobId === undefined ? method : `${method} ${attempt ?? ''}`.trim());
    if (!this.connected) throw new SpawnerLost('not connected', false);
    const fault = this.fault(method, params);
    if (fault === 'lose_before') return this.#lose();
    if (fault !== undefined && fault !== 'lose_after') throw new SpawnerError(fault, `refused: ${fault}`);
    const result = this.#answer(method, params as never) as Methods[M]['result'];
    if (fault === 'lose_after') return this.#lose();
    return result;
  }

  #lose(): never {
    this.reconnect();
    throw new SpawnerLost('the spawner went away', true);
  }

  tell(event: 'up' | 'down'): void {
    this.#events.emit(event);
  }

  /** As after a restart that found nothing on disk. */
  forgetAll(): void {
    this.#attempts.clear();
    this.#running.clear();
  }

  /** Down and up again. */
  reconnect(): void {
    this.connected = false;
    this.#events.emit('down');
    setTimeout(() => {
      this.connected = true;
      this.#events.emit('up');
    }, 5);
  }

  #answer(method: Method, params: StartParams): unknown {
    const key = `${params.jobId}/${params.attempt}`;
    const attempt = this.#attempts.get(key);
    switch (method) {
      case 'hello': {
        const engines = [{ name: 'puppet', kind: 'command' }];
        return { version: 'test', engines, enforcement: { ...this.enforcement } };
      }
      case 'start':
        if (this.#forgotten.has(key)) throw new SpawnerError('forgotten', key);
        if (attempt !== undefined) throw new SpawnerError('already_started', key);
        this.#accept(key, params);
        return { gatewayDir: join(this.stateDir, 'gw') };
      case 'go':
        if (attempt === undefined) throw new SpawnerError('unknown_attempt', key);
        if (!attempt.gone) void this.program(attempt);
        attempt.gone = true;
        return {};
      case 'cancel':
        if (this.#running.has(key)) this.seal(params, { type: 'end', outcome: 'cancelled' });
        return { known: attempt !== undefined };
      case 'forget':
        if (attempt === undefined) this.#forgotten.add(key);
        return { known: attempt !== undefined };
      case 'list':
        return {
          attempts: [...this.#attempts.entries()]
            .filter(([name]) => this.#running.has(name))
            .map(([, { jobId, attempt, tenantId, sessionId, engine, gone }]) => ({
              ...{ jobId, attempt, tenantId, sessionId, engine },
              state: gone ? 'running' : 'waiting',
              gatewayDir: join(this.stateDir, 'gw'),
              startedAt: new Date().toISOString(),
            })),
        };
      case 'prune':
        rmSync(join(this.stateDir, 'jobs', params.jobId), { recursive: true, force: true });
        return { pruned: true };
      default:
        return {};
    }
  }

  #accept(key: string, params: StartParams): void {
    this.started.push(params);
    this.#attempts.set(key, { ...params, gone: false, seq: 0 });
    this.#running.add(key);
    mkdirSync(join(this.stateDir, 'jobs', params.jobId), { recursive: true });
    if (params.attempt > 1) this.write(params, { type: 'job', state: 'retrying', reason: 'lost' });
    this.write(params, { type: 'job', state: 'starting' });
  }

  /** Appends one line. */
  write(ref: AttemptRef, event: object): void {
    const attempt = this.#attempts.get(`${ref.jobId}/${ref.attempt}`);
    if (attempt === undefined) throw new Error('no such attempt');
    attempt.seq += 1;
    const head = { seq: attempt.seq, ts: new Date().toISOString(), jobId: ref.jobId, attempt: ref.attempt };
    appendFileSync(this.path(ref), `${JSON.stringify({ ...head, ...event })}\n`);
  }

  /** Counts lines that the test has written to the spool by itself. */
  skip({ jobId, attempt }: AttemptRef, lines: number): void {
    const known = this.#attempts.get(`${jobId}/${attempt}`);
    if (known !== undefined) known.seq += lines;
  }

  isRunning(jobId: string): boolean {
    return [...this.#attempts.values()].some((attempt) => attempt.jobId === jobId && attempt.gone);
  }

  /** Appends the closing line and tells. */
  seal(
    ref: AttemptRef,
    event: object = { type: 'end', outcome: 'ok', exit: { code: 0, signal: null } },
  ): void {
    const { jobId, attempt } = ref;
    if (!this.#running.delete(`${jobId}/${attempt}`)) return;
    this.write(ref, event);
    const last = (event as { type: string }).type === 'end' ? 'end' : 'lost';
    this.#events.emit('sealed', { jobId, attempt, last });
  }

  path({ jobId, attempt }: AttemptRef): string {
    return join(this.stateDir, 'jobs', jobId, `${attempt}.ndjson`);
  }

  isSpooled(ref: AttemptRef): boolean {
    return existsSync(this.path(ref));
  }

  close(): void {
    rmSync(this.stateDir, { recursive: true, force: true });
  }
}
