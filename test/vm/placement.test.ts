// Where `djinnd start` puts its cgroups on a unified machine without systemd, and that it gives everything back.
import assert from 'node:assert/strict';
import { execFileSync, spawn } from 'node:child_process';
import {
  existsSync,
  mkdirSync,
  mkdtempSync,
  readdirSync,
  readFileSync,
  rmdirSync,
  rmSync,
  writeFileSync,
} from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { after, before, test } from 'node:test';
import { isCgroup2 } from '../../cgroups/files.ts';
import { guestOnly as skip } from './guest.ts';

const placement = join(import.meta.dirname, '../../daemon/parent/placement.ts');
const box = '/sys/fs/cgroup/box';
let dir: string;

before(() => {
  dir = mkdtempSync(join(tmpdir(), 'placement-'));
});
after(() => rmSync(dir, { recursive: true, force: true }));

const controllers = (path: string, file: string) =>
  readFileSync(join(path, file), 'utf8').trim().split(/\s+/).sort();

/** Runs a script with `placed` in scope inside the given cgroup; prints its JSON. */
function placeIn(cgroup: string, script: string): { root: string } & Record<string, unknown> {
  const text = `
    import { placeTree } from ${JSON.stringify(placement)};
    import { readFileSync } from 'node:fs';
    import { pino } from ${JSON.stringify(join(import.meta.dirname, '../../node_modules/pino/pino.js'))};
    const log = pino({ level: 'silent' });
    const own = () => readFileSync('/proc/self/cgroup', 'utf8').trim();
    const place = () => placeTree({ instance: 'trial', memoFile: ${JSON.stringify(join(dir, 'memo'))}, log });
    ${script}`;
  const command = 'echo 0 > "$1/cgroup.procs" && shift && exec "$@"';
  const args = ['-c', command, 'sh', cgroup, process.execPath, '--input-type=module', '-e', text];
  return JSON.parse(execFileSync('sh', args, { encoding: 'utf8' }));
}

test('in a cgroup with processes every controller reaches the tree, and afterwards all is as before', {
  skip,
}, () => {
  mkdirSync(box);
  const offered = controllers(box, 'cgroup.controllers');
  const bystander = spawn('sleep', ['600']);
  writeFileSync(join(box, 'cgroup.procs'), String(bystander.pid));
  const seen = placeIn(
    box,
    `
    const placed = await place();
    const inside = { root: placed.root, own: own(), bystander: readFileSync('/proc/${bystander.pid}/cgroup', 'utf8').trim(),
      controllers: readFileSync(placed.root + '/cgroup.controllers', 'utf8').trim() };
    await placed.close();
    console.log(JSON.stringify({ ...inside, ownAfter: own() }));`,
  );
  assert.equal(seen.root, `${box}/djinnd-trial`);
  assert.equal(seen.own, '0::/box/djinnd-trial-parent');
  assert.equal(seen.bystander, seen.own);
  for (const name of ['memory', 'pids', 'cpu', 'io']) {
    assert.ok(String(seen.controllers).split(' ').includes(name) === offered.includes(name), name);
  }
  assert.equal(seen.ownAfter, '0::/box');
  assert.equal(readFileSync(`/proc/${bystander.pid}/cgroup`, 'utf8').trim(), '0::/box');
  assert.deepEqual(controllers(box, 'cgroup.subtree_control'), ['']);
  assert.deepEqual(
    readdirSync(box, { withFileTypes: true }).filter((entry) => entry.isDirectory()),
    [],
  );
  bystander.kill('SIGKILL');
  return new Promise<void>((resolve) => bystander.once('exit', () => resolve()));
});

test('what a killed parent left behind is killed and removed by the next, also from another cgroup', {
  skip,
}, () => {
  const left = placeIn(
    box,
    `
    const placed = await place();
    const { mkdirSync, writeFileSync } = await import('node:fs');
    const { spawn } = await import('node:child_process');
    mkdirSync(placed.root + '/jobs');
    const child = spawn('sleep', ['600'], { detached: true, stdio: 'ignore' });
    writeFileSync(placed.root + '/jobs/cgroup.procs', String(child.pid));
    console.log(JSON.stringify({ root: placed.root, child: child.pid }));
    process.exit(0);`,
  );
  assert.ok(isCgroup2(left.root));
  const next = placeIn(
    '/sys/fs/cgroup',
    `
    const placed = await place();
    console.log(JSON.stringify({ root: placed.root }));
    await placed.close();`,
  );
  assert.equal(next.root, '/sys/fs/cgroup/djinnd-trial');
  assert.ok(!existsSync(left.root) && !existsSync(next.root));
  assert.ok(
    !existsSync(`/proc/${left.child}`) || readFileSync(`/proc/${left.child}/stat`, 'utf8').includes(') Z'),
  );
});

after(() => {
  if (skip !== false || !existsSync(box)) return;
  for (const name of readdirSync(box)) if (name.startsWith('djinnd-')) rmdirSync(join(box, name));
  rmdirSync(box);
});
