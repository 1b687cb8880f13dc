// At the start of the spawner: closes what a dead predecessor left open. Its processes are gone by then, or die here.
import { readdirSync, rmSync } from 'node:fs';
import { join } from 'node:path';
import type { Logger } from 'pino';
import { sweepTree, type Tree } from '../../cgroups/index.ts';
import { cutTornTail } from './disk.ts';
import { createEventLines } from './event-lines.ts';
import { removeRunDirectory } from './job-directories.ts';
import { type Layout, readersGid, spoolPath } from './layout.ts';
import { type AttemptMeta, readMeta, removeMeta } from './meta.ts';
import { createSpool, reopenSpool, type Spool } from './spool.ts';

const CAUSE = { code: 'spawner_died', message: 'the spawner ended while the job ran' };

/** What a spool's last line says: its number, and whether it closes the attempt. */
interface SpoolTail {
  seq: number;
  closing: boolean;
}

/**
 * Kills and removes everything below the tree, removes stale run directories, and closes every attempt that has no
 * last line: as `end` with outcome `lost` if it was the last one, else as `job {state:"lost"}`.
 */
export async function recover(layout: Layout, tree: Tree | null, log: Logger): Promise<{ lost: number }> {
  if (tree !== null) {
    const { killed, removed, leaked } = await sweepTree(tree);
    if (killed + removed + leaked.length > 0)
      log.warn({ killed, removed, leaked }, 'swept what a predecessor left');
  }
  for (const name of readdirSync(layout.jobsRunDir)) {
    const left = await removeRunDirectory(join(layout.jobsRunDir, name));
    if (left.length > 0) log.warn({ left }, 'a stale run directory is not empty');
  }
  let lost = 0;
  for (const file of metaFiles(layout)) {
    try {
      if (await closeOrphan(layout, file, log)) lost += 1;
    } catch (error) {
      log.error({ err: error, file }, 'an attempt of the predecessor cannot be closed');
    }
  }
  if (lost > 0) log.warn({ lost }, 'attempts of the predecessor are lost');
  return { lost };
}

function metaFiles({ stateDir }: Layout): string[] {
  const jobs = join(stateDir, 'jobs');
  return readdirSync(jobs).flatMap((job) =>
    readdirSync(join(jobs, job))
      .filter((name) => name.endsWith('.meta.json'))
      .map((name) => join(jobs, job, name)),
  );
}

/** True when the attempt had to be closed. */
async function closeOrphan(layout: Layout, file: string, log: Logger): Promise<boolean> {
  const meta = readMeta(file);
  if (meta === null) {
    // Never acknowledged: it was not on disk. djinnd writes its end.
    rmSync(file.replace(/\.meta\.json$/, '.ndjson'), { force: true });
    removeMeta(file);
    return false;
  }
  const { spool, tail } = openSpool(layout, meta, log);
  if (tail?.closing === true) spool.close();
  else await sealAsLost(spool, meta);
  removeMeta(file);
  return tail?.closing !== true;
}

function openSpool(layout: Layout, meta: AttemptMeta, log: Logger): { spool: Spool; tail: SpoolTail | null } {
  const path = spoolPath(layout, meta);
  const onRetry = (errno: string) => log.error({ path, errno }, 'the last line waits for room');
  try {
    const { bytes, last } = cutTornTail(path, readTail);
    return { spool: reopenSpool({ path, bytes, lastSeq: last?.seq ?? 0, onRetry }), tail: last };
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code !== 'ENOENT') throw error;
    return { spool: createSpool({ path, gid: readersGid(layout), onRetry }), tail: null };
  }
}

function readTail(line: string): SpoolTail | null {
  try {
    const value = JSON.parse(line) as { seq?: unknown; type?: unknown; state?: unknown };
    if (typeof value.seq !== 'number') return null;
    const closing = value.type === 'end' || (value.type === 'job' && value.state === 'lost');
    return { seq: value.seq, closing };
  } catch {
    return null;
  }
}

async function sealAsLost(spool: Spool, meta: AttemptMeta): Promise<void> {
  const lines = createEventLines(meta);
  await spool.seal((seq) => {
    lines.rewind(seq);
    if (!meta.lastAttempt) return lines.own({ type: 'job', state: 'lost', reason: CAUSE.code, evidence: {} });
    return lines.own({
      ...{ type: 'end', outcome: 'lost', cause: CAUSE, exit: null, evidence: {} },
      resources: { wallMs: Date.now() - Date.parse(meta.startedAt) },
      enforcement: meta.enforcement,
      engine: meta.engine,
    });
  });
}
