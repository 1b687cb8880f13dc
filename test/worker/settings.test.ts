import assert from 'node:assert/strict';
import { mkdirSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { type TestContext, test } from 'node:test';
import { contentChunk, httpError, toolCallChunk } from '../../worker/index.ts';
import { DEFAULT_BASE_URL, DEFAULT_MODEL, readSettings, SettingsError } from '../../worker/settings.ts';
import { doneText, runHere, startFake } from './scripted-run.ts';
import { makeFolder, readSession, runWorker, terminal } from './worker-process.ts';

const KEY = 'sk-canary-0123456789';

function writeConfig(t: TestContext, config: unknown, name = 'config.json'): string {
  const path = join(makeFolder(t), name);
  writeFileSync(path, typeof config === 'string' ? config : JSON.stringify(config));
  return path;
}

function refusal(env: Record<string, string>, more: { model?: string; configFile?: string } = {}): string {
  try {
    readSettings(env, more);
  } catch (error) {
    if (error instanceof SettingsError) return error.message;
    throw error;
  }
  return 'taken';
}

test('a key alone is enough, and a base URL alone is for servers without a key', () => {
  assert.deepEqual(readSettings({ DJINN_API_KEY: ` ${KEY}\n` }).models, [
    { id: DEFAULT_MODEL, baseUrl: DEFAULT_BASE_URL, apiKey: KEY },
  ]);
  assert.deepEqual(readSettings({ DJINN_API_BASE: 'http://h/v1', DJINN_MODEL: 'm' }).models, [
    { id: 'm', baseUrl: 'http://h/v1' },
  ]);
  assert.match(refusal({}), /DJINN_API_KEY/);
  assert.match(refusal({ DJINN_API_KEY: 'schlüssel' }), /DJINN_API_KEY holds characters/);
});

test('the environment alone gives a whole pool, its keys also from files and variables', (t) => {
  const file = writeConfig(t, `${KEY}-file\n`, 'key');
  const fallbacks = [
    'same',
    { id: 'b', baseUrl: 'https://b/v1', apiKey: { env: 'B_KEY' }, inputLimit: 9, outputLimit: 3 },
    { id: 'c', baseUrl: 'unix:/c.sock:/v1', headers: { 'api-key': { file } } },
  ];
  const settings = readSettings({
    DJINN_API_KEY_FILE: file,
    DJINN_API_BASE: 'https://a/v1',
    DJINN_MODEL: 'a',
    DJINN_INPUT_LIMIT: '1000',
    DJINN_FALLBACKS: JSON.stringify(fallbacks),
    B_KEY: `${KEY}-b`,
  });
  const primary = { id: 'a', baseUrl: 'https://a/v1', apiKey: `${KEY}-file`, inputLimit: 1000 };
  assert.deepEqual(settings.models, [
    primary,
    { ...primary, id: 'same' },
    { id: 'b', baseUrl: 'https://b/v1', apiKey: `${KEY}-b`, inputLimit: 9, outputLimit: 3 },
    { id: 'c', baseUrl: 'unix:/c.sock:/v1', headers: { 'api-key': `${KEY}-file` } },
  ]);
  assert.deepEqual(settings.secretVariables.sort(), ['B_KEY', 'DJINN_API_KEY', 'DJINN_FALLBACKS']);
});

test('a configuration file names the models in order; the wanted one comes first', (t) => {
  const configFile = writeConfig(t, {
    models: [
      { id: 'a', baseUrl: 'https://a/v1?api-version=2', headers: { 'API-Key': KEY } },
      { id: 'b', inputLimit: 10 },
      { id: 'c', baseUrl: 'http://c', apiKey: { env: 'C_KEY' } },
    ],
    idleTimeoutMs: 1234,
    queueTimeoutMs: 5678,
  });
  const env = { DJINN_API_KEY: 'sk-environment', C_KEY: 'sk-of-c-only' };
  const settings = readSettings(env, { configFile, model: 'c' });
  assert.deepEqual(settings.models, [
    { id: 'c', baseUrl: 'http://c', apiKey: 'sk-of-c-only' },
    // The key of the environment goes to its own endpoint and to no other.
    { id: 'a', baseUrl: 'https://a/v1?api-version=2', headers: { 'api-key': KEY } },
    { id: 'b', baseUrl: DEFAULT_BASE_URL, apiKey: 'sk-environment', inputLimit: 10 },
  ]);
  assert.deepEqual([settings.idleTimeoutMs, settings.queueTimeoutMs], [1234, 5678]);
  assert.equal(readSettings({ ...env, DJINN_IDLE_TIMEOUT_MS: '99' }, { configFile }).idleTimeoutMs, 99);
  assert.match(refusal(env, { configFile, model: 'd' }), /no model d; it has a, b, c/);
});

test('config.json of the home folder is used when the environment says nothing about where to ask', (t) => {
  const home = makeFolder(t);
  mkdirSync(join(home, '.djinn'));
  const models = [{ id: 'kept', baseUrl: 'http://kept/v1' }];
  writeFileSync(join(home, '.djinn/config.json'), JSON.stringify({ models }));
  assert.equal(readSettings({ HOME: home }).models[0]?.id, 'kept');
  assert.equal(readSettings({ DJINN_HOME: join(home, '.djinn') }).models[0]?.id, 'kept');
  assert.equal(readSettings({ HOME: home, DJINN_API_KEY: KEY }).models[0]?.id, DEFAULT_MODEL);
  const named = writeConfig(t, { models: [{ id: 'named', baseUrl: 'http://named/v1' }] });
  assert.equal(readSettings({ HOME: home, DJINN_API_KEY: KEY, DJINN_CONFIG: named }).models[0]?.id, 'named');
});

test('what a configuration file has wrong is refused by its name, and no message holds a key', (t) => {
  const one = { id: 'a', baseUrl: 'http://a', apiKey: KEY };
  const table: [unknown, RegExp][] = [
    [`{"models":[{"apiKey":"${KEY}" `, /is not valid JSON/],
    [`{"models":[{"apiKey":${KEY}}]}`, /is not valid JSON/],
    ['[]', /must hold an object/],
    [{}, /models must be a list/],
    [{ models: [] }, /models must be a list/],
    [{ models: ['a'] }, /models\[0\] must be an object/],
    [{ models: [one], model: 'a' }, /\.model is unknown; known are models/],
    [{ models: [{ ...one, inputlimit: 1 }] }, /models\[0\]\.inputlimit is unknown/],
    [{ models: [{ ...one, gateway: true }] }, /models\[0\]\.gateway is unknown/],
    [{ models: [{ ...one, id: '' }] }, /models\[0\]\.id must be a string/],
    [
      { models: [one, { ...one, inputLimit: '128k' }] },
      /models\[1\]\.inputLimit must be a positive whole number/,
    ],
    [{ models: [{ ...one, outputLimit: 0 }] }, /outputLimit must be a positive/],
    [{ models: [{ ...one, baseUrl: 'ftp://a' }] }, /models\[0\]\.baseUrl: not a model URL/],
    [{ models: [{ ...one, baseUrl: `http://u:${KEY}@a/v1` }] }, /with a user name or password/],
    [{ models: [{ ...one, apiKey: `${KEY}\u0000` }] }, /apiKey holds characters/],
    [{ models: [{ ...one, apiKey: { env: 'NOT_SET' } }] }, /apiKey: NOT_SET is not set/],
    [{ models: [{ ...one, apiKey: { file: 'not-there' } }] }, /apiKey: cannot read not-there: ENOENT/],
    [{ models: [{ ...one, apiKey: { key: KEY } }] }, /apiKey must be a string, \{"env"/],
    [{ models: [{ ...one, headers: { Host: 'x' } }] }, /headers\.Host cannot be set/],
    [{ models: [{ ...one, headers: { 'a b': 'x' } }] }, /headers\.a b cannot be set/],
    [{ models: [{ ...one, headers: { a: `${KEY}\r\nX: y` } }] }, /headers\.a holds characters/],
    [{ models: [one], idleTimeoutMs: -1 }, /idleTimeoutMs must be/],
  ];
  for (const [config, said] of table) {
    const message = refusal({}, { configFile: writeConfig(t, config) });
    assert.match(message, said);
    // Not even its beginning, which Node quotes around a mistake.
    assert.ok(!message.includes(KEY.slice(0, 8)), message);
  }
  assert.match(refusal({}, { configFile: '/not/there.json' }), /cannot read the configuration .*ENOENT/);
  const configFile = writeConfig(t, { models: [one] });
  assert.match(refusal({ DJINN_FALLBACKS: 'b' }, { configFile }), /DJINN_FALLBACKS is set, but/);
});

test('a run by a configuration file: fallback to another server with its own key, which no tool and no file sees', async (t) => {
  const dead = await startFake(t, [httpError(503)]);
  const alive = await startFake(t, ({ step }) => ({
    sse: step === 0 ? [toolCallChunk('bash', { command: 'env' })] : [contentChunk('done')],
  }));
  const home = makeFolder(t);
  const models = [
    { id: 'dead', baseUrl: dead.baseUrl, headers: { 'x-team': 'core-team' } },
    {
      id: 'alive',
      baseUrl: `${alive.baseUrl}?api-version=7`,
      apiKey: { env: 'MY_OWN_KEY' },
      headers: { 'api-key': { file: 'azure.key' } },
      outputLimit: 77,
    },
  ];
  writeFileSync(join(home, 'azure.key'), 'azure-canary-key\n');
  writeFileSync(join(home, 'pool.json'), JSON.stringify({ models }));
  const args = ['-p', 'go', '--session-id', 's', '--config', join(home, 'pool.json')];
  const env = { MY_OWN_KEY: KEY, DJINN_API_KEY: '' };
  const end = await runWorker(t, args, { home, env });
  assert.equal(doneText(end), 'done');
  assert.deepEqual([dead.requests.length, alive.requests.length], [1, 2]);
  assert.deepEqual(
    [dead.requests[0]?.headers['x-team'], dead.requests[0]?.headers.authorization],
    ['core-team', undefined],
  );
  const [request] = alive.requests;
  assert.equal(request?.path, '/v1/chat/completions?api-version=7');
  assert.deepEqual(
    [request?.headers['api-key'], request?.headers.authorization],
    ['azure-canary-key', `Bearer ${KEY}`],
  );
  assert.equal(request?.body.max_tokens, 77);
  const written = `${end.stdout}${end.stderr}${JSON.stringify(readSession(home, 's'))}`;
  assert.ok(!written.includes(KEY) && !written.includes('azure-canary-key'));
});

test('models of an embedding program that cannot be used end the run as settings, before anything is sent', async (t) => {
  const fake = await startFake(t, [{ sse: [contentChunk('ok')] }]);
  const good = { id: 'm', baseUrl: fake.baseUrl };
  const wrong = [
    { ...good, apiKey: 'sk-two\nlines' },
    { ...good, headers: { 'x y': '1' } },
    { ...good, inputLimit: 0 },
    { ...good, baseUrl: 'nowhere' },
    { ...good, id: '' },
  ];
  for (const entry of wrong) {
    assert.equal(
      (await runHere(t, fake.baseUrl, { models: [entry] })).outcome,
      'settings',
      JSON.stringify(entry),
    );
  }
  assert.equal(fake.requests.length, 0);
  // An empty key is none: a program hands on what its environment has.
  assert.equal((await runHere(t, fake.baseUrl, { models: [{ ...good, apiKey: '' }] })).outcome, 'ok');
  assert.equal(fake.requests[0]?.headers.authorization, undefined);
});

test('a configuration that cannot be used is said as the one event, with exit code 2', async (t) => {
  const configFile = writeConfig(t, { models: [{ id: 'a', baseurl: 'x' }] });
  const end = await runWorker(t, ['-p', 'go', '--config', configFile], { home: makeFolder(t) });
  const last = terminal(end.events);
  assert.equal(end.code, 2);
  assert.match(last.type === 'error' ? last.message : '', /models\[0\]\.baseurl is unknown/);
});
