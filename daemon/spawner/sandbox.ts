// Makes the launcher of this machine: runtime files, system view, and the proof of what the sandbox holds.

import { allowsCgroupNamespace } from './cgroup-namespace.ts';
import type { EngineDefinition } from './engines.ts';
import { createLaunch, type Launch } from './launch.ts';
import { dropEarlierVersions, prepareRuntimeFiles } from './runtime-files.ts';
import { PROBE_ENGINE, probeSandbox, type SandboxReport } from './sandbox-probe.ts';
import { readSystemView } from './system-view.ts';

export interface SandboxOptions {
  stateDir: string;
  jobsRunDir: string;
  /** True as root. */
  privileged: boolean;
  nodePath: string;
  /** Null until the worker is built: jobs of kind `djinn` then fail at once and say so. */
  workerPath: string | null;
  engines: Iterable<EngineDefinition>;
}

export interface Sandbox {
  launch: Launch;
  controls: SandboxReport;
}

/** Prepares and probes. Takes about half a second the first time, mostly for the copy of Node. */
export async function prepareSandbox(options: SandboxOptions): Promise<Sandbox> {
  const { stateDir, jobsRunDir, privileged, nodePath, workerPath } = options;
  const probe: EngineDefinition = { ...PROBE_ENGINE, argv: [...PROBE_ENGINE.argv], files: [] };
  const runtime = prepareRuntimeFiles({
    stateDir,
    nodePath,
    workerPath,
    engines: [...options.engines, probe],
  });
  dropEarlierVersions(runtime);
  const cgroupNamespace = allowsCgroupNamespace();
  const launch = createLaunch({ runtime, system: readSystemView(), privileged, cgroupNamespace });
  const hasFilter = runtime.seccomp !== null;
  const controls = await probeSandbox({ launch, stateDir, jobsRunDir, privileged, hasFilter });
  return { launch, controls };
}
