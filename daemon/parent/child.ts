// One supervised process: starts it, starts it again with back-off when it dies, ends it in order.
import { type ChildProcess, spawn } from 'node:child_process';
import { setTimeout as sleep } from 'node:timers/promises';
import type { Logger } from 'pino';
import type { Account } from '../db/embedded-cluster.ts';

export interface ChildSpec {
  name: string;
  command: string[];
  env: Record<string, string>;
  /** Whom it runs as, with that user's groups and no capability; null: as the parent. */
  user: (Account & { name: string }) | null;
  /** Runs after each unexpected end, before the next start. */
  afterDeath?: () => void;
}

const FIRST_WAIT_MS = 200;
const LONGEST_WAIT_MS = 10_000;
/** A process that lived this long was all right: the next wait is short again. */
const HEALTHY_MS = 10_000;
/** Quick deaths before the first healthy life after which starting is given up. */
const MAX_QUICK_DEATHS = 5;

/** `failed` resolves when the process could never be brought up. */
export class SupervisedChild {
  readonly failed: Promise<string>;
  #spec: ChildSpec;
  #log: Logger;
  #process: ChildProcess | null = null;
  #stopping = new AbortController();
  #loop: Promise<void>;
  #giveUp: (reason: string) => void = () => {};

  constructor(spec: ChildSpec, log: Logger) {
    this.#spec = spec;
    this.#log = log.child({ process: spec.name });
    this.failed = new Promise((resolve) => {
      this.#giveUp = resolve;
    });
    this.#loop = this.#run();
  }

  get pid(): number | null {
    return this.#process?.pid ?? null;
  }

  /** TERM, then KILL after `graceMs`. Resolves when it is gone. */
  async close(graceMs: number): Promise<void> {
    this.#stopping.abort();
    this.#process?.kill('SIGTERM');
    const timer = setTimeout(() => {
      this.#log.warn({ graceMs }, 'does not stop: killing it');
      this.#process?.kill('SIGKILL');
    }, graceMs);
    await this.#loop;
    clearTimeout(timer);
  }

  async #run(): Promise<void> {
    let waitMs = FIRST_WAIT_MS;
    let quickDeaths = 0;
    let everHealthy = false;
    while (!this.#stopping.signal.aborted) {
      const startedAt = Date.now();
      const end = await this.#life();
      if (this.#stopping.signal.aborted) return;
      const livedMs = Date.now() - startedAt;
      if (livedMs >= HEALTHY_MS) [waitMs, quickDeaths, everHealthy] = [FIRST_WAIT_MS, 0, true];
      else quickDeaths += 1;
      if (!everHealthy && quickDeaths >= MAX_QUICK_DEATHS) {
        this.#giveUp(`${this.#spec.name} does not start (${end}); its last words are above`);
        return;
      }
      this.#log.error({ end, livedMs, waitMs }, 'died: starting it again');
      this.#spec.afterDeath?.();
      await sleep(waitMs, undefined, { signal: this.#stopping.signal }).catch(() => {});
      waitMs = Math.min(waitMs * 2, LONGEST_WAIT_MS);
    }
  }

  #life(): Promise<string> {
    const [program = '', ...args] = [...dropTo(this.#spec.user), ...this.#spec.command];
    return new Promise((resolve) => {
      // In a session of its own: a terminal's INT reaches the parent alone, which stops things in order.
      const child = spawn(program, args, {
        env: this.#spec.env,
        cwd: '/',
        detached: true,
        stdio: ['ignore', 2, 2],
      });
      this.#process = child;
      child.once('error', (error) => resolve(error.message));
      child.once('exit', (code, signal) =>
        resolve(signal === null ? `exit code ${code}` : `signal ${signal}`),
      );
      this.#log.debug({ child: child.pid }, 'started');
    }).then((end) => {
      this.#process = null;
      return String(end);
    });
  }
}

/** TERM as parent-death signal: a killed parent leaves nothing running. */
function dropTo(user: ChildSpec['user']): string[] {
  if (user === null) return ['setpriv', '--pdeathsig=TERM', '--'];
  return [
    'setpriv',
    '--pdeathsig=TERM',
    `--reuid=${user.uid}`,
    `--regid=${user.gid}`,
    '--init-groups',
    '--no-new-privs',
    '--inh-caps=-all',
    '--bounding-set=-all',
    '--',
  ];
}
