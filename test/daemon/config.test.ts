// Settings from an environment.
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { ConfigError, configEnv, loadConfig } from '../../daemon/config.ts';

test('defaults for root and for another user', () => {
  const root = loadConfig({}, 0);
  assert.deepEqual(
    [root.stateDir, root.runDir, root.jobsRunDir, root.enforcement],
    ['/var/lib/djinnd', '/run/djinnd', '/run/djinnd-jobs', 'strict'],
  );
  assert.equal(
    loadConfig({}, 998).stateDir,
    '/var/lib/djinnd',
    'the installed service runs as a system user',
  );
  const user = loadConfig(
    { HOME: '/home/ada', XDG_RUNTIME_DIR: '/run/user/1000', DJINND_INSTANCE: 'x' },
    1000,
  );
  assert.deepEqual(
    [user.stateDir, user.runDir, user.jobsRunDir],
    ['/home/ada/.local/state/djinnd-x', '/run/user/1000/djinnd-x', '/run/user/1000/djinnd-x/jobs'],
  );
  assert.equal(loadConfig({ HOME: '/home/ada' }, 1000).runDir, '/tmp/djinnd-1000');
});

test('an environment made from settings gives the same settings, and carries no secret', () => {
  const env = {
    DJINND_INSTANCE: 'two',
    DJINND_LISTEN: '[::1]:1',
    DJINND_ENFORCEMENT: 'best-effort',
    DJINND_MAX_RUNNING: '3',
    DJINN_API_KEY: 'sk-secret',
    DATABASE_URL: 'postgresql://u:pw@db/x',
  };
  const config = loadConfig(env, 0);
  const again = configEnv(config);
  assert.doesNotMatch(JSON.stringify(again), /sk-secret|pw/);
  const { model, databaseUrl, ...rest } = config;
  assert.ok(model.apiKey === 'sk-secret' && databaseUrl !== null);
  const { model: _model, databaseUrl: _url, ...same } = loadConfig(again, 0);
  assert.deepEqual(same, rest);
});

for (const [name, value] of [
  ['DJINND_STATE_DIR', 'var/lib'],
  ['DJINND_STATE_DIR', '/var/../etc'],
  ['DJINND_INSTANCE', 'Über'],
  ['DJINND_LISTEN', '127.0.0.1'],
  ['DJINND_LISTEN', '127.0.0.1:70000'],
  ['DJINND_ENFORCEMENT', 'Strict'],
  ['DJINND_MAX_RUNNING', '-1'],
  ['DJINND_MAX_RUNNING', '1e9'],
  ['DJINND_NO_SUCH', 'x'],
  ['DATABASE_URL', 'mysql://x'],
  ['DJINN_API_BASE', 'api.example'],
] as const) {
  test(`${name}=${value} is refused by name`, () => {
    assert.throws(
      () => loadConfig({ [name]: value }, 0),
      (error) => error instanceof ConfigError && error.message.includes(name),
    );
  });
}
