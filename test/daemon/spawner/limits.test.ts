// What needs the controllers of cgroup v2: skipped without them, run in the virtual machine.
import assert from 'node:assert/strict';
import { readFileSync } from 'node:fs';
import { after, before, test } from 'node:test';
import { fileURLToPath } from 'node:url';
import type { EngineDefinition } from '../../../daemon/spawner/engines.ts';
import { LIMITS, type Line, type SpawnerBench, startBench } from '../../support/spawner.ts';

const controllers = (() => {
  try {
    return readFileSync('/sys/fs/cgroup/cgroup.controllers', 'utf8').trim().split(' ');
  } catch {
    return [];
  }
})();
const missing = ['memory', 'pids', 'cpu'].filter((name) => !controllers.includes(name));
const unable = process.getuid?.() === 0 ? missing : ['root', ...missing];
const real = unable.length === 0 ? {} : { skip: `needs ${unable.join(', ')} (run in the VM)` };

const dir = fileURLToPath(new URL('../../support', import.meta.url));
const PUPPET: EngineDefinition = {
  name: 'puppet',
  kind: 'command',
  argv: ['/opt/djinn/node', '/opt/djinn/engine/puppet.cjs'],
  files: ['puppet.cjs'],
  dir,
};
const UID = 299_051;
const limits = { ...LIMITS, memoryBytes: 192 * 1024 ** 2, pids: 40, wallMs: 60_000 };
const last = (lines: Line[]): Line => lines.at(-1) as Line;

let bench: SpawnerBench;
before(async () => {
  if (unable.length > 0) return;
  bench = await startBench({
    enforcement: 'strict',
    parts: {
      engines: new Map([['puppet', PUPPET]]),
      accountOf: async () => ({ user: 'djt299051', uid: UID, gid: UID }),
    },
  });
});
after(async () => {
  await bench?.close();
});

async function run(steps: Record<string, unknown>[], wallMs = limits.wallMs): Promise<Line[]> {
  const params = await bench.begin(steps, { limits: { ...limits, wallMs } });
  return bench.finish(params, 120_000);
}

test('strict mode runs a job, and its end carries full controls and counters', real, async () => {
  const lines = await run([{ sleepMs: 500 }, { done: 1 }]);
  const end = last(lines);
  assert.equal(end.outcome, 'ok', JSON.stringify(end));
  for (const name of ['memory', 'swap', 'pids', 'cpu', 'kill', 'uid', 'namespaces', 'seccomp']) {
    assert.equal(end.enforcement[name], 'full', name);
  }
  assert.ok(end.resources.memoryPeakBytes > 0 && end.resources.cpuUsec > 0 && end.resources.pidsPeak > 0);
  assert.ok(lines.some(({ type, memoryBytes, pids }) => type === 'resources' && memoryBytes > 0 && pids > 0));
});

test('an agent over its memory limit ends as oom', real, async () => {
  const end = last(await run([{ eatMemory: 1 }]));
  assert.deepEqual([end.outcome, end.cause?.code], ['oom', 'agent_oom'], JSON.stringify(end));
  assert.ok(end.evidence.agentOomKills > 0);
});

test('a tool over the memory limit is killed alone; the agent goes on and ends as ok', real, async () => {
  const lines = await run([{ eatInTool: 1 }, { done: 1 }]);
  const end = last(lines);
  assert.ok(
    lines.some(({ text }) => text === 'tool null SIGKILL' || text === 'tool 137 null'),
    JSON.stringify(lines),
  );
  assert.equal(end.outcome, 'ok', JSON.stringify(end));
  assert.ok(end.evidence.toolOomKills > 0);
  assert.equal(end.evidence.agentOomKills, 0);
});

test(
  'a program that forks without end is held at pids.max, ends at its time, and the next job runs',
  real,
  async () => {
    const end = last(await run([{ forkBomb: 1 }], 8000));
    assert.equal(end.outcome, 'timeout', JSON.stringify(end));
    assert.ok(end.evidence.pidsMaxHits > 0 && end.evidence.pidsPeak <= 40);
    assert.equal(last(await run([{ done: 1 }])).outcome, 'ok');
  },
);

test('a limit that cannot be applied starts nothing: spawn_failed names the stage', real, async () => {
  const params = await bench.begin([{ done: 1 }], { limits: { ...limits, memoryBytes: 1 } });
  const end = last(await bench.finish(params, 60_000));
  assert.ok(
    ['spawn_failed', 'oom', 'failed'].includes(end.outcome) && end.outcome !== 'ok',
    JSON.stringify(end),
  );
});
