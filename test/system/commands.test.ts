// The command line without a service: help, exit codes, and how bin/djinnd finds its Node.
import assert from 'node:assert/strict';
import { spawnSync } from 'node:child_process';
import { copyFileSync, mkdirSync, mkdtempSync, rmSync, symlinkSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { after, test } from 'node:test';

const root = join(import.meta.dirname, '../..');
const bin = join(root, 'bin/djinnd');
const scratch = mkdtempSync(join(tmpdir(), 'djinnd-commands-'));
after(() => rmSync(scratch, { recursive: true, force: true }));

/** As a shell without npm would run it. */
function djinnd(
  args: string[],
  options: { program?: string; env?: Record<string, string>; cwd?: string } = {},
) {
  const env = {
    PATH: '/usr/sbin:/usr/bin:/sbin:/bin',
    DJINND_INSTANCE: `none-${process.pid}`,
    ...options.env,
  };
  const { status, stdout, stderr } = spawnSync(options.program ?? bin, args, {
    env,
    cwd: options.cwd ?? '/',
    encoding: 'utf8',
  });
  return { status, stdout, stderr };
}

for (const command of ['serve', 'spawner', 'start', 'migrate', 'doctor', 'sql', 'tenant', 'key', 'demo']) {
  test(`${command} --help prints usage and exit codes and ends with 0`, () => {
    const { status, stdout, stderr } = djinnd([command, '--help']);
    assert.equal(status, 0, stderr);
    assert.match(stdout, new RegExp(`Usage: .*${command}`));
    assert.match(stdout, /Exit codes: 0/);
    assert.equal(stderr, '');
  });

  test(`${command} with an option that does not exist ends with 2`, () => {
    const { status, stdout, stderr } = djinnd([command, '--no-such-option']);
    assert.equal(status, 2, stderr);
    assert.equal(stdout, '');
    assert.match(stderr, /there is no option --no-such-option\n|needs/);
    assert.match(stderr, new RegExp(`Try: djinnd ${command} --help`));
  });
}

test('an unknown command, and none, end with 2', () => {
  assert.equal(djinnd(['serv']).status, 2);
  assert.equal(djinnd([]).status, 2);
});

test('a setting that is misspelt or wrong is named and nothing starts', () => {
  const misspelt = djinnd(['start'], { env: { DJINND_ENFORCMENT: 'strict' } });
  assert.equal(misspelt.status, 2);
  assert.match(misspelt.stderr, /DJINND_ENFORCMENT is not a setting/);
  const wrong = djinnd(['start'], { env: { DJINND_LISTEN: '8420' } });
  assert.match(wrong.stderr, /DJINND_LISTEN is "8420": write host:port/);
});

test('listening beyond loopback without TLS is refused unless asked for by name', () => {
  const { status, stderr } = djinnd(['serve'], { env: { DJINND_LISTEN: '0.0.0.0:8420' } });
  assert.equal(status, 2);
  assert.match(stderr, /DJINND_ALLOW_PLAIN_LISTEN=1/);
});

test('a state directory where no files can be kept is refused at once, as is an empty statement', () => {
  const { status, stderr } = djinnd(['start'], { env: { DJINND_STATE_DIR: '/proc/djinnd' } });
  assert.equal(status, 2);
  assert.match(stderr, /DJINND_STATE_DIR is "\/proc\/djinnd": no files can be kept there/);
  assert.equal(djinnd(['sql', ' \n']).status, 2);
});

test('commands without a running database say what is not running', () => {
  const { status, stderr } = djinnd(['sql', 'select 1']);
  assert.equal(status, 1);
  assert.match(stderr, /embedded database .* does not answer .*djinnd start/);
});

test('bin/djinnd works through a chain of links, from any directory, whatever node the PATH has', () => {
  const first = join(scratch, 'first');
  const second = join(scratch, 'second');
  symlinkSync(bin, first);
  symlinkSync('first', second);
  for (const program of [bin, first, second]) {
    const { status, stdout } = djinnd(['--version'], {
      program,
      cwd: scratch,
      env: { PATH: '/usr/bin:/bin' },
    });
    assert.equal(status, 0);
    assert.match(stdout, /^djinnd \d+\.\d+\.\d+, Node 24\./);
  }
});

test('without node_modules bin/djinnd says to run npm ci', () => {
  const clone = join(scratch, 'clone');
  mkdirSync(join(clone, 'bin'), { recursive: true });
  copyFileSync(bin, join(clone, 'bin/djinnd'));
  const { status, stderr } = djinnd(['--version'], { program: join(clone, 'bin/djinnd') });
  assert.equal(status, 1);
  assert.match(stderr, new RegExp(`run 'npm ci' in ${clone} first`));
});
