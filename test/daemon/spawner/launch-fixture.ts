// A launcher over directories of its own, for the tests of the sandbox. Leaves nothing behind and checks that.
import assert from 'node:assert/strict';
import { mkdirSync, mkdtempSync, readdirSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import type { Readable } from 'node:stream';
import type { TestContext } from 'node:test';
import type { Account } from '../../../daemon/spawner/accounts.ts';
import { allowsCgroupNamespace } from '../../../daemon/spawner/cgroup-namespace.ts';
import type { EngineDefinition } from '../../../daemon/spawner/engines.ts';
import { makeRunDirectory, makeWorkspace } from '../../../daemon/spawner/job-directories.ts';
import {
  createLaunch,
  type LaunchEnd,
  type Launched,
  type LaunchSpec,
} from '../../../daemon/spawner/launch.ts';
import { prepareRuntimeFiles, type RuntimeFiles } from '../../../daemon/spawner/runtime-files.ts';
import { readSystemView } from '../../../daemon/spawner/system-view.ts';

export const isRoot = process.getuid?.() === 0;
/** Root is the missing capability; the whole suite runs as root in CI and in the VM. */
export const rootOnly = isRoot ? {} : { skip: 'needs root: real tenant users and mounts' };
/** No system user of its own is needed: the kernel only knows numbers. Test files run at the same time: each its own. */
const firstUid = 300_000 + process.pid * 2;
export const TENANT: Account = { user: 'djt1', uid: firstUid, gid: firstUid };
export const OTHER_TENANT: Account = { user: 'djt2', uid: firstUid + 1, gid: firstUid + 1 };

export interface Finished {
  end: LaunchEnd;
  stdout: string;
  stderr: string;
}

export interface LaunchFixture {
  stateDir: string;
  jobsRunDir: string;
  sessionFile: string;
  /** Starts `argv` for the tenant. */
  start(argv: readonly string[], spec?: Partial<LaunchSpec>): Launched;
  /** Starts, gives no input, waits for the end and removes the run directory. */
  run(argv: readonly string[], spec?: Partial<LaunchSpec>): Promise<Finished>;
}

export async function textOf(stream: Readable): Promise<string> {
  const chunks: Buffer[] = [];
  for await (const chunk of stream) chunks.push(chunk as Buffer);
  return Buffer.concat(chunks).toString('utf8');
}

/** Pids of processes of a user on this machine. */
export function processesOf(uid: number): number[] {
  return readdirSync('/proc')
    .map(Number)
    .filter(Number.isInteger)
    .filter((pid) => {
      try {
        const status = readFileSync(`/proc/${pid}/status`, 'utf8');
        return new RegExp(`^Uid:\\s${uid}\\s`, 'm').test(status) && !/^State:\sZ/m.test(status);
      } catch {
        return false; // ended meanwhile
      }
    });
}

/** The copies are made once for a test file: Node is 120 MB. */
let runtimeDir: string | null = null;
const runtimes = new Map<string, RuntimeFiles>();
process.once('exit', () => runtimeDir !== null && rmSync(runtimeDir, { recursive: true, force: true }));

function runtimeOf(engine: EngineDefinition): RuntimeFiles {
  const key = JSON.stringify([engine.dir, engine.files]);
  runtimeDir ??= mkdtempSync(join(tmpdir(), 'djinnd-runtime-'));
  const sources = { stateDir: runtimeDir, nodePath: process.execPath, workerPath: null, engines: [engine] };
  const runtime = runtimes.get(key) ?? prepareRuntimeFiles(sources);
  runtimes.set(key, runtime);
  return runtime;
}

export function launchFixture(
  t: TestContext,
  options: { engineFiles?: string[]; engineDir?: string } = {},
): LaunchFixture {
  const base = mkdtempSync(join(tmpdir(), 'djinnd-launch-'));
  const stateDir = join(base, 'state');
  const jobsRunDir = join(base, 'jobs');
  const workspaces = join(stateDir, 'workspaces');
  for (const path of [stateDir, jobsRunDir, workspaces]) mkdirSync(path, { mode: 0o711 });
  const sessionFile = join(stateDir, 'session.jsonl');
  writeFileSync(sessionFile, '{"earlier":"record"}\n', { mode: 0o640 });
  const engine: EngineDefinition = {
    ...{ name: 'test', kind: 'command', argv: [] },
    ...{ files: options.engineFiles ?? [], dir: options.engineDir ?? '/' },
  };
  const runtime = runtimeOf(engine);
  const launch = createLaunch({
    runtime,
    system: readSystemView(),
    privileged: isRoot,
    cgroupNamespace: allowsCgroupNamespace(),
  });
  const account = isRoot ? TENANT : { user: '', uid: process.getuid?.() ?? 0, gid: process.getgid?.() ?? 0 };
  const all: Launched[] = [];
  const start = (argv: readonly string[], spec: Partial<LaunchSpec> = {}): Launched => {
    const jobId = `job_${all.length}`;
    const owner = spec.account === OTHER_TENANT ? OTHER_TENANT : account; // tests bring impossible ones too
    const { runDir } = makeRunDirectory(jobsRunDir, jobId, { uid: 0, gid: owner.gid });
    const { path } = makeWorkspace(workspaces, { tenantId: owner.user || 'me', sessionId: 's' }, owner);
    const launched = launch({
      ...{ jobId, attempt: 1, engine: { ...engine, argv: [...argv] }, account, call: null },
      ...{ runDir, workspaceDir: path, sessionFile, network: 'none' },
      ...spec,
    });
    all.push(launched);
    return launched;
  };
  const run = async (argv: readonly string[], spec: Partial<LaunchSpec> = {}): Promise<Finished> => {
    const launched = start(argv, spec);
    launched.stdin.end();
    const [stdout, stderr, end] = await Promise.all([
      textOf(launched.stdout).catch(() => ''),
      textOf(launched.stderr).catch(() => ''),
      launched.ended,
    ]);
    assert.deepEqual(await launched.close(), []);
    return { end, stdout, stderr };
  };
  t.after(async () => {
    for (const launched of all) launched.killAll(); // what a failed test left
    await Promise.all(all.map(({ ended }) => ended));
    assert.deepEqual(readdirSync(jobsRunDir), [], 'no run directory is left');
    assert.ok(!readFileSync('/proc/self/mountinfo', 'utf8').includes(base), 'no mount is left');
    if (isRoot) assert.deepEqual(processesOf(TENANT.uid), [], 'no process is left');
    rmSync(base, { recursive: true, force: true });
  });
  return { stateDir, jobsRunDir, sessionFile, start, run };
}
