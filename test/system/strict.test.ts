// Strict enforcement on a machine that cannot hold the limits: nothing runs, and everything says why.
import assert from 'node:assert/strict';
import { after, before, test } from 'node:test';
import { probe } from '../../cgroups/index.ts';
import { startDaemon, type TestDaemon } from '../support/daemon.ts';
import { cleanState } from './leftovers.ts';

const { hierarchy } = await probe();
const skip = hierarchy === 'unified' ? 'needs a machine in hybrid or v1 mode; this one is unified' : false;
let daemon: TestDaemon;

before(async () => {
  if (skip !== false) return;
  daemon = await startDaemon({ instance: `strict-${process.pid}`, enforcement: 'strict', ready: false });
  while ((await readyz())?.enforcement == null) await new Promise((resolve) => setTimeout(resolve, 50));
});

after(async () => {
  if (skip !== false) return;
  await daemon.close();
  assert.deepEqual(cleanState(daemon), []);
});

async function readyz() {
  const answer = await fetch(`${daemon.url}/readyz`).catch(() => null);
  if (answer === null) return null;
  return { status: answer.status, ...((await answer.json()) as { reasons: string[]; enforcement: unknown }) };
}

test('/readyz is 503 and names the missing controllers', { skip }, async () => {
  const answer = await readyz();
  assert.equal(answer?.status, 503);
  assert.match(answer?.reasons.join('\n') ?? '', /memory is none: no memory controller/);
});

test('POST is refused with a typed error and no job is made', { skip }, async () => {
  const key = await daemon.tenant('acme');
  const answer = await daemon.post(key, { prompt: 'hello' });
  const problem = (await answer.json()) as { code: string };
  assert.equal(answer.status, 503);
  assert.equal(problem.code, 'DJ_ENFORCEMENT');
  const list = (await (await daemon.get(key, '/v1/jobs')).json()) as { jobs: unknown[] };
  assert.deepEqual(list.jobs, []);
});

test('doctor exits 1 and names the controller and the mend', { skip }, async () => {
  const { code, stdout } = await daemon.djinnd('doctor');
  assert.equal(code, 1);
  assert.match(stdout, /memory +none +required/);
  assert.match(stdout, /why: +no memory controller: hybrid mode/);
  assert.match(stdout, /mend: boot with systemd\.unified_cgroup_hierarchy=1/);
});
