import assert from 'node:assert/strict';
import { execFileSync } from 'node:child_process';
import { mkdirSync } from 'node:fs';
import { test } from 'node:test';
import { noSystemd } from '../guest.ts';
import { installTrial, reportOf, systemctl } from './units.ts';

const DIR = '/run/djinnd-jobs/job_trial';

interface Facts {
  uid: number;
  status: string;
  tcp: boolean;
  socket: boolean;
  localhost: string;
  writeEtc: string;
  writeVar: string;
  writeCgroup: string;
  seesInit: boolean;
  homes: string;
  namespace: string;
}

test('under the shipped unit the daemon listens, and has no right that it does not use', {
  skip: noSystemd,
}, async (t) => {
  execFileSync('sh', ['-c', 'id djinnd 2>/dev/null || useradd --system --no-create-home djinnd']);
  mkdirSync(`${DIR}/gw`, { recursive: true });
  execFileSync('chown', ['djinnd:nogroup', `${DIR}/gw`]);
  execFileSync('chmod', ['2710', `${DIR}/gw`]);
  const unit = installTrial('djinnd', 'stand-in-daemon.ts', DIR);
  t.after(() => systemctl('stop', unit));
  systemctl('start', unit);
  const facts = await reportOf<Facts>(unit, `${DIR}/gw/report.json`);
  assert.notEqual(facts.uid, 0);
  assert.match(facts.status, /^CapBnd:\t0+$/m);
  assert.match(facts.status, /^NoNewPrivs:\t1$/m);
  assert.match(facts.status, /^Seccomp:\t2$/m);
  assert.deepEqual([facts.tcp, facts.socket], [true, true]);
  assert.match(facts.localhost, /^(127\.0\.0\.1|::1)$/);
  assert.deepEqual([facts.writeEtc, facts.writeVar, facts.writeCgroup], ['EROFS', 'EROFS', 'EROFS']);
  assert.equal(facts.seesInit, false);
  assert.notEqual(facts.homes, 'done');
  assert.notEqual(facts.namespace, 'done');
});
