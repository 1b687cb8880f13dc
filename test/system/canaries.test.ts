// One word for each class of secret, planted where djinnd keeps that secret and looked for everywhere a tenant or a reader
// can look. The very same search finds one that was planted on purpose (C136, C137, C141, C142, C150).
import assert from 'node:assert/strict';
import { execFile } from 'node:child_process';
import { chownSync, mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { after, before, test } from 'node:test';
import { setTimeout as sleep } from 'node:timers/promises';
import type { FakeOpenAI } from '../../worker/index.ts';
import { endOf, startDaemon, type TestDaemon, toolResult } from '../support/daemon.ts';
import { ECHO_PROMPTS, startEchoingModel } from '../support/echoing-model.ts';
import { type PasswordDatabase, startPasswordDatabase } from '../support/password-database.ts';
import { findIn, type Hit, newSecret, type Secret } from '../support/secrets.ts';
import { removeUsers, uidOf } from '../support/tenant-users.ts';
import { inGuest, timeScale } from '../vm/guest.ts';
import { leftovers } from './leftovers.ts';
import { refusedRequests } from './refused-requests.ts';
import {
  commandLines,
  filesBelow,
  findInProcess,
  PLANTED_PLACES,
  plantAndSearch,
  reportOf,
  uidsOf,
} from './search.ts';
import { cancel } from './steps.ts';

const skip = process.getuid?.() === 0 ? false : 'needs root: secrets of several users on one machine';
const bin = join(import.meta.dirname, '../../bin/djinnd');
const since = Date.now();
const [searcher, victim] = [`cs${process.pid}`, `cv${process.pid}`];
const planted = newSecret('planted');
const secret = {
  database: newSecret('database password'),
  model: newSecret('model key'),
  engine: newSecret('key of another engine'),
  environment: newSecret('environment of djinnd start'),
  workspace: newSecret("another tenant's file"),
};
let token: Secret;
let all: Secret[];
let daemon: TestDaemon;
let model: FakeOpenAI;
let database: PasswordDatabase;
let enginesDir: string;

/** An engine that neither tenant uses, with its key in every place where a definition could keep one. */
function makeEngine(): string {
  const dir = mkdtempSync(join(tmpdir(), 'djinnd-engines-'));
  const { value } = secret.engine;
  const definition = { name: 'other', kind: 'command', argv: ['/bin/echo', value], files: ['settings'] };
  writeFileSync(join(dir, 'other.json'), JSON.stringify(definition), { mode: 0o600 });
  writeFileSync(join(dir, 'settings'), value, { mode: 0o600 });
  writeFileSync(join(dir, 'other.key'), value, { mode: 0o600 });
  return dir;
}

before(async () => {
  if (skip !== false) return;
  enginesDir = makeEngine();
  [model, database] = await Promise.all([
    startEchoingModel(planted.value),
    startPasswordDatabase(secret.database.value),
  ]);
  daemon = await startDaemon({
    instance: `canaries-${process.pid}`,
    env: {
      DATABASE_URL: database.url,
      DJINN_API_KEY: secret.model.value,
      DJINN_API_BASE: model.baseUrl,
      DJINN_MODEL: 'echo',
      DJINND_ENGINES_DIR: enginesDir,
      DJINND_LOG_LEVEL: 'trace',
      PLANTED_SECRET: secret.environment.value,
    },
  });
  token = { name: 'caller token', value: await daemon.tenant(searcher, '--engine', 'djinn') };
  all = [...Object.values(secret), token, planted];
});

after(async () => {
  if (skip !== false) return;
  assert.equal(await daemon.close(), 0);
  await Promise.all([model.stop(), database.stop()]);
  assert.deepEqual(leftovers(daemon), []);
  rmSync(daemon.stateDir, { recursive: true });
  rmSync(enginesDir, { recursive: true });
  removeUsers([searcher, victim]);
});

const useEngine = (engine: string) =>
  database.query('update tenants set wbb_engine = $1 where id = $2', [engine, searcher]);

/** Real secrets that were found. The same search must have found what was planted, or it proves nothing. */
function leaks(hits: readonly Hit[]): Hit[] {
  assert.ok(
    hits.some(({ name }) => name === planted.name),
    'the search finds what is there',
  );
  return hits.filter(({ name }) => name !== planted.name);
}

const exec = (...argv: string[]) => ({ prompt: JSON.stringify({ steps: [{ exec: { argv } }] }) });
/** The command line with other settings. */
function djinnd(
  args: string[],
  env: Record<string, string>,
): Promise<{ code: unknown; stdout: string; stderr: string }> {
  return new Promise((resolve) =>
    execFile(bin, args, { env }, (error, stdout, stderr) =>
      resolve({ code: error?.code ?? 0, stdout, stderr }),
    ),
  );
}

/** The other tenant works on its secret while `work` runs: it is in its files, environments, arguments and sockets. */
async function besideVictim(work: () => Promise<void>): Promise<void> {
  const key = await daemon.tenant(victim, '--engine', 'scripted');
  endOf(await daemon.job(key, { ...exec('/bin/true'), sessionId: 'kept' }));
  const file = join(daemon.stateDir, 'workspaces', victim, 'kept', 'secret');
  writeFileSync(file, secret.workspace.value, { mode: 0o600 });
  const uid = uidOf(victim);
  chownSync(file, uid, uid);
  const script = `held=$(cat secret); for place in /tmp /dev/shm ~; do cp secret $place/secret; done
/opt/djinn/node -e 'require("node:net").createServer((s) => s.end(process.argv[1])).listen("\\0" + process.argv[1])' "$held" &
HELD="$held" bash -c 'exec -a "$0" sleep 3000' "$held"`;
  const running = daemon.job(key, { ...exec('/bin/bash', '-c', script), sessionId: 'kept' });
  while (!uidsOf(secret.workspace.value).includes(uid)) await sleep(50 * timeScale);
  try {
    await work();
  } finally {
    await cancel(daemon, key, 'kept');
    assert.equal(endOf(await running).outcome, 'cancelled');
  }
}

function assertCleanReport(result: string): void {
  const { hits, reached } = reportOf(result);
  assert.deepEqual(leaks(hits), []);
  const places = new Set(hits.map(({ place }) => place));
  assert.deepEqual(
    PLANTED_PLACES.filter((place) => !places.has(place)),
    [],
    `planted and not found; reached ${JSON.stringify(reached)}`,
  );
  const forms = new Set(hits.map(({ form }) => form.replace(/ \d/, '')));
  for (const form of ['plain', 'url', 'base64']) assert.ok(forms.has(form), `${form} in ${[...forms]}`);
  assert.ok(reached.files >= 10 && reached.processes > 5, JSON.stringify(reached));
  assert.ok(reached.sockets >= 3 && reached.replies >= 2 * ECHO_PROMPTS.length, JSON.stringify(reached));
}

test('no secret can be found from the bash tool, while what is planted beside it is found', { skip }, () =>
  besideVictim(async () => {
    // The guest's programs are this machine's own files, which a run outside of it looks through.
    const command = plantAndSearch(planted, { secrets: all, since, system: !inGuest });
    const lines = await daemon.job(token.value, { prompt: `bash: ${command}` });
    assertCleanReport(toolResult(lines));
    const keys = new Set(model.requests.map(({ headers }) => headers.authorization));
    assert.deepEqual([...keys], [`Bearer ${secret.model.value}`], 'the model was asked with its key');
  }),
);

test('no secret can be found by a program of the scripted engine, nor in its job line', {
  skip,
}, async () => {
  await useEngine('scripted');
  const command = plantAndSearch(planted, { secrets: all, since, system: false });
  const steps = [{ job: {} }, { env: {} }, { exec: { argv: ['/bin/bash', '-c', command] } }];
  const lines = await daemon.job(token.value, { prompt: JSON.stringify({ steps }) });
  const results = lines.filter(({ type }) => type === 'tool_result').map(({ content }) => String(content));
  assertCleanReport(results[2] ?? '');
  assert.deepEqual(leaks(findIn(JSON.stringify(lines), all, 'stream')), []);
});

test('an answer that gives the key back reaches neither events, records nor rows', { skip }, async () => {
  await useEngine('djinn');
  for (const prompt of ['planted', 'echo stream', 'echo refusal', 'echo base64', 'echo html', 'echo split']) {
    const lines = await daemon.job(token.value, { prompt, sessionId: 'echoes' });
    const hits = findIn(JSON.stringify(lines), all, prompt);
    assert.deepEqual(
      hits.filter(({ name }) => name !== planted.name),
      [],
    );
    assert.equal(hits.length > 0, prompt === 'planted', prompt);
  }
});

test('no secret is in spools, session records, run directories, rows or metrics while a job runs', {
  skip,
}, async () => {
  await useEngine('scripted');
  const { value: word } = planted;
  const steps = [
    { record: { type: 'note', data: { word }, sync: true } },
    { stderr: word },
    ...['planted', ...ECHO_PROMPTS].map((prompt) => ({ modelRequest: { prompt } })),
    { say: word },
    { sleepMs: 5000 * timeScale },
  ];
  const running = daemon.job(token.value, { prompt: JSON.stringify({ steps }), sessionId: 'spooled' });
  const dirs = [daemon.stateDir, daemon.runDir, daemon.jobsRunDir];
  // Left out: the copies of what runs, and what the tenants' own programs wrote.
  const leaveOut = ['app', 'runtime', 'workspaces'].map((name) => join(daemon.stateDir, name));
  const files = () => dirs.flatMap((dir) => filesBelow(dir, leaveOut));
  const hitsIn = () => files().flatMap(({ path, bytes }) => findIn(bytes, all, path));
  const said = (hits: Hit[]) => hits.some(({ place }) => /jobs\/job_.*\/1\.ndjson$/.test(place));
  let hits = hitsIn();
  while (!said(hits)) {
    await sleep(100 * timeScale);
    hits = hitsIn();
  }
  assert.deepEqual(leaks(hits), []);
  assert.ok(hits.some(({ place }) => place.endsWith(`/sessions/${searcher}/spooled.jsonl`)));
  assert.deepEqual(findIn(commandLines([process.pid]), all, 'command lines'), [], 'nor is the prompt in any');
  assert.deepEqual(leaks(findIn(await database.rows(), all, 'database')), []);
  assert.deepEqual(findIn(await (await fetch(`${daemon.metricsUrl}/metrics`)).text(), all, 'metrics'), []);
  assert.deepEqual(leaks(findIn(JSON.stringify(await running), all, 'stream')), []);
});

test('no secret is in any command line, and the spawner holds none that is not an engine’s', {
  skip,
}, async () => {
  assert.deepEqual(findIn(commandLines([process.pid]), all, 'command lines'), []);
  const spawner = await daemon.processOf('spawner');
  assert.deepEqual(
    findInProcess(spawner, all).filter(({ name }) => name !== secret.engine.name && name !== planted.name),
    [],
  );
  const held = findInProcess(await daemon.processOf('serve'), all).map(({ name }) => name);
  assert.ok(
    held.includes(secret.model.name),
    'the same search finds the key in the process that has to hold it',
  );
  await sleep(50 * timeScale); // connections that the daemon closed meanwhile are seen to be closed
});

test('no secret is in the bodies of refused requests', { skip }, async () => {
  for (const [path, request] of refusedRequests(token.value)) {
    const answer = await fetch(daemon.url + path, request);
    const text = `${JSON.stringify([...answer.headers])} ${await answer.text()}`;
    if (answer.status < 400) assert.equal(answer.status, 202, `${path} ${text}`);
    assert.deepEqual(findIn(text, all, `${request.method ?? 'GET'} ${path} ${answer.status}`), []);
  }
});

test('no secret is in what commands say about a database that refuses them', { skip }, async () => {
  const { value } = secret.database;
  const password = encodeURIComponent(value);
  const urls = {
    refused: `postgresql://me:${password}@127.0.0.1:1/djinnd`,
    unknown: `postgresql://me:${password}@no-such-host.invalid/djinnd`,
    unreadable: `postgresql://me:${password}@127.0.0.1:port/djinnd`,
    unescaped: `postgresql://me:${value}@127.0.0.1:1/djinnd`,
    'wrong password': database.urlWith({ password: `${value}!` }),
    'no socket': database.urlWith({ host: '/nonexistent' }),
    'without TLS': database.urlWith({ options: '&sslmode=require' }),
    'no such scheme': `mysql://me:${password}@127.0.0.1/djinnd`,
  };
  const say = async (name: string, url: string, command: string[]): Promise<void> => {
    const env = { ...daemon.env, DATABASE_URL: url, DJINND_LISTEN: '127.0.0.1:0' };
    const { code, stdout, stderr } = await djinnd(command, env);
    assert.notEqual(code, 0, `${command[0]} with ${name}: ${stdout}`);
    assert.deepEqual(findIn(stdout + stderr, all, `${command[0]} with ${name}: ${stderr}`), []);
    assert.doesNotMatch(stderr, /\n +at /, `${command[0]} with ${name}`);
  };
  for (const [name, url] of Object.entries(urls)) {
    await Promise.all([say(name, url, ['migrate']), say(name, url, ['serve'])]);
  }
  await Promise.all([
    say('a wrong password', urls['wrong password'], ['tenant', 'list']),
    say('no server', urls.refused, ['sql', 'select 1']),
  ]);
});

test('no secret is in any log at level trace, also when djinnd dies and when it meets its errors', {
  skip,
}, async () => {
  process.kill(await daemon.processOf('serve'), 'SIGABRT');
  await sleep(500 * timeScale);
  await daemon.untilReady();
  await daemon.djinnd('doctor');
  const log = await daemon.log();
  assert.match(log, /"level":"trace"|"level":"debug"/);
  const deaths = log.split('\n').filter((line) => line.includes('died: starting it again'));
  assert.equal(deaths.length, 1, log.slice(-20_000));
  assert.deepEqual(leaks(findIn(log, all, 'log')), []);
});
