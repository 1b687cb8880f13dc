// What tests of attempts share: a spawner for the file that is proven clean at its end, steps, and looks at lines.
import assert from 'node:assert/strict';
import { existsSync, readdirSync, readFileSync } from 'node:fs';
import { join } from 'node:path';
import { after, before } from 'node:test';
import { type Line, type SpawnerBench, startBench, testCgroup } from './spawner.ts';

export const token = (text: string) => ({ emit: { type: 'token', text } });
export const DONE = { done: 1 };

/** Names of the lines without the samples: the state of a `job` line, otherwise its type. */
export const types = (lines: Line[]): string[] =>
  lines.filter(({ type }) => type !== 'resources').map(({ type, state }) => state ?? type);

/** The one `end`, after a check that it is the last line and that no number is missing. */
export function endOf(lines: Line[]): Line {
  const ends = lines.filter(({ type }) => type === 'end');
  assert.equal(ends.length, 1, 'exactly one end');
  assert.equal(lines.at(-1), ends[0], 'nothing after it');
  assert.deepEqual(
    lines.map(({ seq }) => seq),
    lines.map((_, index) => index + 1),
  );
  return ends[0] as Line;
}

/** Pids whose command line has the marker of an `escape` step. */
export function alive(marker: string): string[] {
  return readdirSync('/proc').filter((pid) => {
    try {
      return /^\d+$/.test(pid) && readFileSync(`/proc/${pid}/cmdline`, 'latin1').includes(`/*${marker}*/`);
    } catch {
      return false;
    }
  });
}

/** Nothing but spools, records and workspaces may be left of jobs that have ended. */
export async function assertClean(bench: SpawnerBench): Promise<void> {
  assert.deepEqual(await bench.client.call('list', {}), { attempts: [] });
  assert.deepEqual(readdirSync(bench.dirs.jobsRunDir), []);
  const jobs = join(bench.dirs.stateDir, 'jobs');
  const files = readdirSync(jobs).flatMap((job) => readdirSync(join(jobs, job)));
  assert.deepEqual(
    files.filter((name) => name.endsWith('.meta.json')),
    [],
  );
  const root = testCgroup();
  if (root === null) return;
  const slices = readdirSync(join(root, 'jobs'), { withFileTypes: true }).filter((entry) =>
    entry.isDirectory(),
  );
  assert.deepEqual(slices, []);
}

/** One spawner with the plain launcher for the whole file. */
export function benchForFile(): () => SpawnerBench {
  let bench: SpawnerBench | undefined;
  before(async () => {
    bench = await startBench();
  });
  after(async () => {
    if (bench === undefined) return;
    await assertClean(bench);
    await bench.close();
    const root = testCgroup();
    assert.ok(root === null || !existsSync(root), 'the cgroup tree is gone');
  });
  return () => bench as SpawnerBench;
}
