// A whole daemon: jobs on both engines, the live switch between them, and what a stop leaves.
import assert from 'node:assert/strict';
import { execFileSync } from 'node:child_process';
import { after, before, test } from 'node:test';
import { setTimeout as sleep } from 'node:timers/promises';
import type { FakeOpenAI } from '../../worker/index.ts';
import { endOf, startDaemon, startObedientModel, type TestDaemon, toolResult } from '../support/daemon.ts';
import { cleanState } from './leftovers.ts';
import { Follower } from './streams.ts';

let daemon: TestDaemon;
let model: FakeOpenAI;
let key: string;

before(async () => {
  model = await startObedientModel();
  daemon = await startDaemon({ instance: `sys-${process.pid}`, env: { DJINN_API_BASE: model.baseUrl } });
  key = await daemon.tenant('acme', '--engine', 'scripted');
});

after(async () => {
  assert.equal(await daemon.close(), 0);
  await model.stop();
  assert.deepEqual(cleanState(daemon), []);
  assert.doesNotMatch(await daemon.log().catch(() => ''), /"level":"(error|fatal)"/);
});

test('a trivial job streams its events in order and ends ok', async () => {
  const lines = await daemon.job(key, { prompt: 'hello world' });
  assert.deepEqual(lines.map(({ type }) => type).filter((type) => type !== 'resources'), [
    'job', 'job', 'job', 'session', 'token', 'token', 'done', 'end',
  ]); // biome-ignore format: one line reads better
  assert.equal(lines[0]?.state, 'queued');
  assert.equal(endOf(lines).outcome, 'ok');
});

test('the djinn engine runs tools as the tenant through the model gateway', async () => {
  await daemon.sql("update tenants set wbb_engine = 'djinn' where id = 'acme'");
  const lines = await daemon.job(key, { prompt: 'bash: id -u; id -G; pwd' });
  assert.equal(endOf(lines).outcome, 'ok');
  assert.match(toolResult(lines), /^(2\d{5})\n\1\n\/workspace/);
});

test('the literal UPDATE switches a tenant while a long job runs on the other engine', async () => {
  await daemon.sql("update tenants set wbb_engine = 'scripted'");
  const long = new Follower(daemon.url, key);
  const reading = long.post({ prompt: JSON.stringify({ steps: [{ sleepMs: 3000 }, { say: 'done' }] }) });
  while (!long.lines.some(({ type }) => type === 'session')) await sleep(20);

  assert.match(await daemon.sql("UPDATE tenants SET wbb_engine='djinn';"), /^UPDATE 1$/m);
  const started = Date.now();
  const next = await daemon.job(key, { prompt: 'bash: true' });
  const claimed = Date.parse(String(next.find(({ state }) => state === 'starting')?.ts));
  assert.ok(claimed - started < 1000, `the next job started after ${claimed - started} ms`);
  assert.equal(endOf(next).engine, 'djinn');
  assert.ok(!long.lines.some(({ type }) => type === 'end'), 'the long job was to outlast the switch');
  await reading;
  assert.equal(endOf(long.lines).engine, 'scripted');

  const audit = await daemon.sql(
    "select old_value, new_value, acting_role from audit_log where column_name = 'wbb_engine' order by id desc limit 1",
  );
  assert.match(audit, /"scripted"\s*\|\s*"djinn"\s*\|\s*djinnd_operator/);
});

test('psql as the operator role switches too, and reports its rows', (t) => {
  const url = ['-h', `${daemon.runDir}/pg`, '-U', 'djinnd_operator', 'djinnd'];
  try {
    execFileSync('psql', ['--version']);
  } catch {
    return t.skip('psql is not installed');
  }
  const output = execFileSync('psql', [...url, '-c', "UPDATE tenants SET wbb_engine='scripted';"], {
    encoding: 'utf8',
  });
  assert.equal(output.trim(), 'UPDATE 1');
});

test('a misspelt engine is refused by the UPDATE itself, with the words of Postgres', async () => {
  const { code, stdout, stderr } = await daemon.djinnd('sql', "UPDATE tenants SET wbb_engine='djin'");
  assert.equal(code, 1);
  assert.equal(stdout, '');
  assert.match(stderr, /ERROR: {2}.*violates foreign key.*\n.*djin.*not present in table "engines"/);
});
