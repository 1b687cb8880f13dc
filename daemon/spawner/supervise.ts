// The table of attempts: decides which may start, finds the one that a request means, tells how each ended.
import type { Account } from './accounts.ts';
import { Attempt } from './attempt.ts';
import { errnoOf } from './disk.ts';
import type { EngineDefinition } from './engines.ts';
import { type Layout, metaPath, spoolDir } from './layout.ts';
import { removeMeta } from './meta.ts';
import { failure, type Stop } from './outcome.ts';
import { isOnDisk, prepareAttempt } from './prepare.ts';
import { Refusal } from './refusal.ts';
import { attemptKey, type Ceilings, clampLimits, clampTotals, type JobRequest } from './request.ts';
import { removeSpools } from './spool.ts';
import type {
  AttemptRef,
  CancelCause,
  EnforcementReport,
  HelloResult,
  Methods,
  StartParams,
  StartResult,
} from './wire.ts';
import type { Last, World } from './world.ts';

/** Attempts that are refused for good are remembered up to this many; a late `start` comes within seconds. */
const MAX_FORGOTTEN = 10_000;

/** What a cancel of each cause makes of the attempt. Without a gateway the program was never given its job. */
const CANCELLED: Record<CancelCause, Stop> = {
  cancelled: { outcome: 'cancelled', cause: { code: 'cancelled', message: 'the job was cancelled' } },
  budget: { outcome: 'budget', cause: { code: 'budget', message: 'the budget is spent' } },
  gateway: {
    outcome: 'spawn_failed',
    cause: { code: 'gateway', stage: 'gateway', message: 'djinnd could not listen for model requests' },
  },
};

export interface SuperviseOptions {
  layout: Layout;
  version: string;
  engines: ReadonlyMap<string, EngineDefinition>;
  enforcement: EnforcementReport;
  ceilings: Ceilings;
  /** Finds or makes the tenant's system user. */
  accountOf(tenantId: string): Promise<Account>;
  world: World;
  onSealed(ref: AttemptRef, last: Last): void;
}

export interface Supervisor {
  /** Answers one checked request; rejects with Refusal. */
  handle(request: JobRequest): Promise<unknown>;
  /** Takes no more starts; resolves when nothing runs. */
  drain(): Promise<void>;
  /** Takes no more starts and ends every attempt as lost. */
  close(): Promise<void>;
}

export function supervise(options: SuperviseOptions): Supervisor {
  const { layout, world } = options;
  const running = new Map<string, Attempt>();
  const starting = new Map<string, Promise<Attempt>>();
  const sessions = new Map<string, string>();
  const forgotten = new Set<string>();
  let draining = false;

  function admit(params: StartParams): EngineDefinition {
    const key = attemptKey(params);
    if (draining) throw new Refusal('draining', 'the spawner takes no more jobs');
    if (forgotten.has(key)) throw new Refusal('forgotten', `${key} was given up before it came`);
    if (running.has(key) || starting.has(key) || isOnDisk(layout, params)) {
      throw new Refusal('already_started', `${key} was started before`);
    }
    if (options.enforcement.refused) {
      throw new Refusal('enforcement', options.enforcement.reason ?? 'a required control is missing');
    }
    const engine = options.engines.get(params.engine);
    if (engine === undefined)
      throw new Refusal('unknown_engine', `engine ${params.engine} is not installed here`);
    const busy = sessions.get(sessionKey(params));
    if (busy !== undefined) throw new Refusal('session_busy', `the session is in use by ${busy}`);
    return engine;
  }

  async function start(asked: StartParams): Promise<StartResult> {
    const engine = admit(asked);
    const key = attemptKey(asked);
    const session = sessionKey(asked);
    sessions.set(session, key);
    const begun = begin(asked, engine);
    const coming = begun.then(({ attempt }) => attempt);
    coming.catch(() => {}); // told to the caller of start below
    starting.set(key, coming);
    try {
      const { attempt, durable } = await begun;
      running.set(key, attempt);
      void attempt.sealed.then((last) => sealed(attempt, last));
      await durable.catch((error) =>
        attempt.fail(failure('spool_full', 'the attempt cannot be stored', errnoOf(error))),
      );
      return { gatewayDir: attempt.order.gatewayDir };
    } catch (error) {
      sessions.delete(session);
      throw error;
    } finally {
      starting.delete(key);
    }
  }

  async function begin(asked: StartParams, engine: EngineDefinition) {
    const params = {
      ...asked,
      limits: clampLimits(asked.limits, options.ceilings),
      totals: clampTotals(asked.totals, options.ceilings),
    };
    const account = await options.accountOf(params.tenantId);
    const { order, durable } = await prepareAttempt(layout, params, {
      ...{ account, engine, levels: world.levels },
      onRetry: (errno) => world.log.error({ jobId: params.jobId, errno }, 'the last line waits for room'),
    });
    // Nothing may be awaited from here to its entry in `running`: it lives already.
    const attempt = new Attempt(order, world);
    return { attempt, durable };
  }

  function sealed(attempt: Attempt, last: Last): void {
    const { params } = attempt.order;
    running.delete(attemptKey(params));
    sessions.delete(sessionKey(params));
    removeMeta(metaPath(layout, params));
    options.onSealed(refOf(params), last);
  }

  async function find(ref: AttemptRef): Promise<Attempt | undefined> {
    const key = attemptKey(ref);
    return running.get(key) ?? (await starting.get(key)?.catch(() => undefined));
  }

  async function go(ref: AttemptRef): Promise<Record<string, never>> {
    const attempt = await find(ref);
    if (attempt !== undefined) attempt.go();
    // One that has ended meanwhile needs no job any more; its notice tells.
    else if (!isOnDisk(layout, ref)) throw new Refusal('unknown_attempt', `${attemptKey(ref)} is unknown`);
    return {};
  }

  async function cancel({ cause, ...ref }: Methods['cancel']['params']): Promise<{ known: boolean }> {
    const attempt = await find(ref);
    attempt?.stop(CANCELLED[cause]);
    return { known: attempt !== undefined || isOnDisk(layout, ref) };
  }

  async function forget(ref: AttemptRef): Promise<{ known: boolean }> {
    if ((await find(ref)) !== undefined || isOnDisk(layout, ref)) return { known: true };
    forgotten.add(attemptKey(ref));
    for (const oldest of forgotten) {
      if (forgotten.size <= MAX_FORGOTTEN) break;
      forgotten.delete(oldest);
    }
    return { known: false };
  }

  async function prune({ jobId }: { jobId: string }): Promise<{ pruned: boolean }> {
    const busy = [...running.keys(), ...starting.keys()].some((key) => key.startsWith(`${jobId}/`));
    if (busy) throw new Refusal('already_started', `an attempt of ${jobId} runs`);
    return { pruned: await removeSpools(spoolDir(layout, jobId)) };
  }

  const hello = (): HelloResult => ({
    version: options.version,
    engines: [...options.engines.values()].map(({ name, kind }) => ({ name, kind })),
    enforcement: options.enforcement,
  });

  async function allSealed(): Promise<void> {
    await Promise.allSettled(starting.values());
    await Promise.all([...running.values()].map((attempt) => attempt.sealed));
  }

  return {
    async handle({ method, params }) {
      if (method === 'start') return start(params);
      if (method === 'go') return go(params);
      if (method === 'cancel') return cancel(params);
      if (method === 'forget') return forget(params);
      if (method === 'prune') return prune(params);
      if (method === 'hello') return hello();
      if (method === 'list') return { attempts: [...running.values()].map(({ info }) => info) };
      const { user, uid } = await options.accountOf(params.tenantId);
      return { user, uid };
    },
    async drain() {
      draining = true;
      await allSealed();
    },
    async close() {
      draining = true;
      await Promise.allSettled(starting.values());
      const cause = { code: 'spawner_stopped', message: 'the spawner was stopped' };
      for (const attempt of running.values()) attempt.stop({ outcome: 'lost', cause });
      await allSealed();
    },
  };
}

const sessionKey = ({ tenantId, sessionId }: { tenantId: string; sessionId: string }): string =>
  `${tenantId}/${sessionId}`;

const refOf = ({ jobId, attempt }: AttemptRef): AttemptRef => ({ jobId, attempt });
