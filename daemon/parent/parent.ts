// Runs database, spawner and daemon in this order and ends them in the reverse one. Serves nothing itself.
import { rmdirSync, rmSync } from 'node:fs';
import { setTimeout as sleep } from 'node:timers/promises';
import { execa } from 'execa';
import type { Logger } from 'pino';
import type { Config } from '../config.ts';
import { type EmbeddedPostgres, startEmbedded } from '../db/embedded.ts';
import type { Account } from '../db/embedded-cluster.ts';
import { SupervisedChild } from './child.ts';
import { places } from './directories.ts';
import { killPlacedTree, type Placement, placeTree } from './placement.ts';
import { daemonSpec, type Family, migrationSpec, spawnerSpec } from './processes.ts';

export interface ParentOptions {
  config: Config;
  appRoot: string;
  /** Null in both: as the user that runs this. */
  daemonUser: Account | null;
  databaseUser: Account | null;
  /** Names for the database's access rules. */
  ownName: string;
  daemonName: string;
  log: Logger;
}

/** Time for the spawner to end its jobs in order, beyond the daemon's own grace. */
const SPAWNER_GRACE_MS = 15_000;

/** Everything that one `djinnd start` runs. `failed` resolves when a part cannot be brought up at all. */
export class Parent {
  readonly failed: Promise<string>;
  #options: ParentOptions;
  #closing: (() => Promise<void>)[] = [];
  #stopped = false;
  #starting: Promise<void> = Promise.resolve();
  #giveUp: (reason: string) => void = () => {};

  constructor(options: ParentOptions) {
    this.#options = options;
    this.failed = new Promise((resolve) => {
      this.#giveUp = resolve;
    });
  }

  /** Starts the parts one after the other; returns early when close() was called meanwhile. Throws if one fails. */
  start(): Promise<void> {
    this.#starting = this.#startAll();
    return this.#starting;
  }

  async #startAll(): Promise<void> {
    const { config, log } = this.#options;
    const placement = await placeTree({
      instance: config.instance,
      memoFile: places(config).cgroupMemo,
      log,
    });
    this.#closing.push(() => placement.close());
    const family: Family = {
      config: { ...config, cgroupRoot: config.cgroupRoot ?? placement.root },
      appRoot: this.#options.appRoot,
      daemonUser: this.#options.daemonUser,
    };
    for (const step of [
      () => this.#startDatabase(),
      () => this.#migrate(family),
      () => this.#startSpawner(family, placement),
      () => this.#startDaemon(family),
    ]) {
      if (this.#stopped) return;
      await step();
    }
  }

  /** Ends the parts, last first. Every step is tried; the first error is thrown at the end. */
  async close(): Promise<void> {
    this.#stopped = true;
    await this.#starting.catch(() => {}); // start() has thrown it to its own caller
    let failure: unknown;
    for (const step of this.#closing.reverse()) {
      await step().catch((error: unknown) => {
        failure ??= error;
      });
    }
    this.#closing = [];
    if (failure !== undefined) throw failure;
  }

  async #startDatabase(): Promise<void> {
    const { config, log } = this.#options;
    if (config.databaseUrl !== null) return;
    let server = await this.#startServer();
    this.#closing.push(() => server.close());
    const watch = async (): Promise<void> => {
      for (let waitMs = 200; !this.#stopped; waitMs = Math.min(waitMs * 2, 10_000)) {
        const end = await server.ended;
        if (this.#stopped) return;
        log.error({ ...end, waitMs }, 'the embedded Postgres ended: starting it again');
        await sleep(waitMs);
        server = await this.#startServer().catch((error: unknown) => {
          log.error({ err: error }, 'the embedded Postgres does not start');
          return server;
        });
      }
    };
    void watch();
  }

  #startServer(): Promise<EmbeddedPostgres> {
    const { config, appRoot, daemonUser, databaseUser, ownName, daemonName, log } = this.#options;
    const { databaseHome, databaseSocket } = places(config);
    return startEmbedded({
      appRoot,
      homeDir: databaseHome,
      runDir: config.runDir,
      socketDir: databaseSocket,
      account: databaseUser,
      clientGid: daemonUser?.gid ?? null,
      identMap: [
        { user: ownName, role: 'all' },
        ...(daemonName === ownName ? [] : [{ user: daemonName, role: 'djinnd_app' }]),
      ],
      log,
    });
  }

  async #migrate(family: Family): Promise<void> {
    const { command, env } = migrationSpec(family);
    const [program = '', ...args] = command;
    const { exitCode } = await execa(program, args, {
      env,
      extendEnv: false,
      cwd: '/',
      stdin: 'ignore',
      stdout: process.stderr,
      stderr: process.stderr,
      reject: false,
    });
    if (exitCode !== 0)
      throw new Error('the database could not be brought to this version; the reason is above');
  }

  #startSpawner(family: Family, placement: Placement): void {
    const { root } = placement;
    this.#supervise(
      new SupervisedChild(
        spawnerSpec(family, () => root !== null && killPlacedTree(root)),
        this.#options.log,
      ),
      SPAWNER_GRACE_MS,
    );
  }

  #startDaemon(family: Family): void {
    this.#supervise(
      new SupervisedChild(daemonSpec(family), this.#options.log),
      this.#options.config.stopGraceMs + 5_000,
    );
  }

  #supervise(child: SupervisedChild, graceMs: number): void {
    this.#closing.push(() => child.close(graceMs));
    void child.failed.then((reason) => this.#giveUp(reason));
  }
}

/** Takes the bound installation away again, and its copy if there was one; the running program keeps what it has loaded. */
export async function unbindApp(config: Config): Promise<void> {
  const { app, appCopy } = places(config);
  await execa('umount', ['--lazy', app], { reject: false, env: { PATH: '/usr/bin:/bin' } });
  rmdirSync(app);
  rmSync(appCopy, { recursive: true, force: true });
}
