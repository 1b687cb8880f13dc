// The probe that doctor makes when no spawner runs: the same one, in temporary directories, nothing left behind.
import { chmodSync, mkdirSync, mkdtempSync, rmSync } from 'node:fs';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { probe } from '../../cgroups/index.ts';
import type { Config } from '../config.ts';
import { createLogger } from '../log.ts';
import { placeTree } from '../parent/placement.ts';
import { loadEngines } from '../spawner/engines.ts';
import { enforcementReport } from '../spawner/required-controls.ts';
import { prepareSandbox } from '../spawner/sandbox.ts';
import type { HelloResult } from '../spawner/wire.ts';

/** Answers as a spawner started here would. */
export async function probeHere(config: Config): Promise<Omit<HelloResult, 'version'>> {
  const privileged = process.getuid?.() === 0;
  const dir = mkdtempSync('/var/tmp/djinnd-doctor-');
  chmodSync(dir, 0o711);
  const jobsRunDir = join(dir, 'jobs');
  mkdirSync(jobsRunDir, { mode: 0o711 });
  const log = createLogger({ logLevel: 'silent' }, 'doctor');
  const memoFile = join(dir, 'cgroup');
  const placement = privileged ? await placeTree({ instance: `doctor-${process.pid}`, memoFile, log }) : null;
  try {
    const delegated = config.cgroupRoot ?? placement?.root ?? null;
    const cgroups = await probe(delegated === null ? {} : { delegated });
    const { engines } = loadEngines([
      { path: fileURLToPath(new URL('../../engines', import.meta.url)), rootOwned: false },
      { path: config.enginesDir, rootOwned: privileged },
    ]);
    const { controls } = await prepareSandbox({
      ...{ stateDir: dir, jobsRunDir, privileged, engines: engines.values() },
      nodePath: process.execPath,
      workerPath: null,
    });
    return {
      engines: [...engines.values()].map(({ name, kind }) => ({ name, kind })),
      enforcement: enforcementReport(config.enforcement, cgroups, controls),
    };
  } finally {
    await placement?.close();
    rmSync(dir, { recursive: true, force: true });
  }
}
