// Nothing that the spawner holds can be found from inside a job, and the search would find it if it were there.
import assert from 'node:assert/strict';
import { randomBytes } from 'node:crypto';
import { closeSync, mkdirSync, openSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { type TestContext, test } from 'node:test';
import { launchFixture, rootOnly } from './launch-fixture.ts';

/** One word per class of secret. In two halves, so that the search itself does not hold it. */
function canary(): { word: string; halves: [string, string] } {
  const halves: [string, string] = [`djk_${randomBytes(8).toString('hex')}`, randomBytes(8).toString('hex')];
  return { word: halves.join('_'), halves };
}

/** Looks for a word in every environment, command line, descriptor, memory and file that can be reached. */
const SEARCH = `
word="$1"_"$2"
hit() { echo "found in $1"; }
for process in /proc/[0-9]*; do
  for file in environ cmdline; do tr '\\0' '\\n' <$process/$file | grep -qF "$word" && hit "$file"; done
  for fd in $process/fd/*; do case $(readlink $fd) in /*) grep -qF "$word" $fd </dev/null && hit descriptor;; esac; done
done
env | grep -qF "$word" && hit environment
for fd in 0 4; do timeout 1 cat <&$fd | grep -qF "$word" && hit "descriptor $fd"; done
grep -rlsF "$word" --devices=skip /etc /run /opt /home /tmp /var /dev/shm /workspace /root /srv /mnt /media | sed 's/^/found in file /'
exit 0`;

const search = ({ halves }: { halves: [string, string] }) => [
  '/bin/bash',
  '-c',
  `{ ${SEARCH}\n} 2>/dev/null`,
  'search',
  ...halves,
];

async function searchFor(
  t: TestContext,
  plant: (word: string, stateDir: string) => unknown,
): Promise<string[]> {
  const { run, stateDir } = launchFixture(t);
  const secret = canary();
  await plant(secret.word, stateDir);
  const { stdout } = await run(search(secret));
  return stdout.split('\n').filter(Boolean);
}

test(
  'a secret of the spawner cannot be found from a job, wherever the spawner keeps it (C142, C150)',
  rootOnly,
  async (t) => {
    for (const [place, plant] of Object.entries({
      environment: (word: string) => {
        process.env.DJINND_PLANTED = word;
        t.after(() => delete process.env.DJINND_PLANTED);
      },
      'a file of root': (word: string, stateDir: string) =>
        writeFileSync(join(stateDir, 'key'), word, { mode: 0o600 }),
      'a file that anyone may read': (word: string, stateDir: string) =>
        writeFileSync(join(stateDir, 'key'), word, { mode: 0o644 }),
      'an open descriptor': (word: string, stateDir: string) => {
        const path = join(stateDir, 'open');
        writeFileSync(path, word, { mode: 0o644 });
        const fd = openSync(path, 'r');
        t.after(() => closeSync(fd));
      },
      'another tenant’s workspace': (word: string, stateDir: string) => {
        mkdirSync(join(stateDir, 'workspaces', 'else', 's'), { recursive: true, mode: 0o755 });
        writeFileSync(join(stateDir, 'workspaces', 'else', 's', 'file'), word, { mode: 0o644 });
      },
    })) {
      assert.deepEqual(await searchFor(t, plant), [], place);
    }
  },
);

test('the same search finds a word that was planted inside on purpose', rootOnly, async (t) => {
  const { run } = launchFixture(t);
  const secret = canary();
  const script = `echo ${secret.word} >/workspace/planted; echo ${secret.word} >/tmp/planted
PLANTED=${secret.word} sleep 20 & exec 9</tmp/planted; exec "$@"`;
  const { stdout } = await run(['/bin/bash', '-c', script, 'plant', ...search(secret)]);
  for (const place of ['environ', 'descriptor', 'file /workspace/planted', 'file /tmp/planted']) {
    assert.ok(stdout.includes(`found in ${place}`), `${place}: ${stdout}`);
  }
  const argv = await run([
    '/bin/bash',
    '-c',
    `sleep 20 ${secret.word} 2>/dev/null; exec -a ${secret.word} sleep 20 & exec "$@"`,
    'plant',
    ...search(secret),
  ]);
  assert.ok(argv.stdout.includes('found in cmdline'), argv.stdout);
});

test(
  'the same search finds a word in the session so far, the one file that a job is given',
  rootOnly,
  async (t) => {
    const { run, sessionFile } = launchFixture(t);
    const secret = canary();
    writeFileSync(sessionFile, secret.word);
    assert.match((await run(search(secret))).stdout, /found in descriptor 4/);
  },
);
