// The demo from a root shell of a machine with systemd: a delegated scope makes every required control full.
import assert from 'node:assert/strict';
import { execFileSync, spawnSync } from 'node:child_process';
import { join } from 'node:path';
import { test } from 'node:test';
import { endOf, readLines } from '../../support/daemon.ts';
import { leftovers } from '../../system/leftovers.ts';
import { noSystemd } from '../guest.ts';

const root = join(import.meta.dirname, '../../..');

test('npm run demo: every required control is full, the job ends ok, nothing is left', {
  skip: noSystemd,
}, () => {
  const env = { PATH: '/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin', HOME: '/root' };
  const { status, stdout, stderr } = spawnSync('npm', ['run', 'demo'], { cwd: root, env, encoding: 'utf8' });
  assert.equal(status, 0, stderr);
  const required = stderr.split('\n').filter((line) => / required/.test(line) && /^ {2}\S/.test(line));
  assert.ok(required.length >= 7, stderr);
  for (const line of required) assert.match(line, /^ {2}\S+ +full +required$/);
  assert.match(stderr, /every required control is full/);
  const end = endOf(readLines(stdout));
  assert.equal(end.outcome, 'ok');
  assert.ok(
    (end.evidence.memoryPeakBytes ?? 0) > 0 && (end.evidence.cpuUsec ?? 0) > 0,
    'measured by its own cgroup',
  );
  assert.match(stderr, /package\.json now says 0\.2\.0, owned by (djt\d+) \(read as \1\)/);
  assert.deepEqual(leftovers({ runDir: '/run/djinnd-demo', jobsRunDir: '/run/djinnd-demo-jobs' }), []);
  assert.doesNotMatch(
    execFileSync('systemctl', ['list-units', '--all'], { encoding: 'utf8' }),
    /djinnd-demo/,
  );
});
