// `npm run demo` as a stranger runs it: what is on stdout, what it leaves, and its --keep.
import assert from 'node:assert/strict';
import { spawn } from 'node:child_process';
import { mkdirSync, rmSync } from 'node:fs';
import { join } from 'node:path';
import { test } from 'node:test';
import { endOf, readLines } from '../support/daemon.ts';
import { leftovers } from './leftovers.ts';
import { disorder } from './streams.ts';

const root = join(import.meta.dirname, '../..');
const instance = `demo-${process.pid}`;
const runDir = `/run/djinnd-${instance}`;
const skip = process.getuid?.() === 0 ? false : 'needs root';

/** Without the environment of this test; an instance of its own so that its state can be removed again. */
function demo(args: string[]) {
  const child = spawn('npm', ['run', 'demo', '--', ...args], {
    cwd: root,
    env: {
      PATH: '/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin',
      HOME: '/root',
      DJINND_INSTANCE: instance,
    },
    detached: true,
    stdio: ['ignore', 'pipe', 'pipe'],
  });
  const output = { stdout: '', stderr: '' };
  child.stdout.setEncoding('utf8').on('data', (text: string) => {
    output.stdout += text;
  });
  child.stderr.setEncoding('utf8').on('data', (text: string) => {
    output.stderr += text;
  });
  const ended = new Promise<number | null>((resolve) => child.once('close', resolve));
  return { child, output, ended };
}

function cleanUp(): void {
  assert.deepEqual(leftovers({ runDir, jobsRunDir: `${runDir}-jobs` }), []);
  rmSync(`/var/lib/djinnd-${instance}`, { recursive: true, force: true });
}

test('the demo prints one whole event stream on stdout, changes the file as the tenant, and leaves nothing', {
  skip,
}, async () => {
  const { output, ended } = demo([]);
  assert.equal(await ended, 0, output.stderr);
  const lines = readLines(output.stdout);
  assert.equal(disorder(lines), null);
  assert.equal(endOf(lines).outcome, 'ok');
  assert.deepEqual(
    lines.filter(({ type }) => type === 'tool_call').map(({ name }) => name),
    ['read_file', 'edit_file'],
  );
  assert.match(output.stderr, /memory +(full|partial|none) +required/);
  assert.match(output.stderr, /^workspace +\/var\/lib\/djinnd-.*\/workspaces\/demo\//m);
  assert.match(output.stderr, /package\.json now says 0\.2\.0, owned by (djt\d+) \(read as \1\)/);
  assert.match(output.stderr, /UPDATE tenants SET wbb_engine='scripted' WHERE id='demo'/);
  assert.match(output.stderr, /curl -N/);
  assert.doesNotMatch(output.stderr + output.stdout, /djk_[A-Za-z0-9]/, 'no key without --keep');
  cleanUp();
});

test('--keep stays up with a working key until INT reaches the terminal', { skip }, async () => {
  const { child, output, ended } = demo(['--keep']);
  while (!output.stderr.includes('stays up') && child.exitCode === null)
    await new Promise((resolve) => setTimeout(resolve, 50));
  const [, url] = /API +(\S+)/.exec(output.stderr) ?? [];
  const [, key] = /key +(djk_\S+)/.exec(output.stderr) ?? [];
  const answer = await fetch(`${url}/v1/jobs`, { headers: { authorization: `Bearer ${key}` } });
  assert.equal(answer.status, 200);
  process.kill(-(child.pid ?? 0), 'SIGINT'); // as a terminal does: to the whole group
  await ended;
  cleanUp();
});

test('a directory that belongs to another is not taken over', { skip }, async () => {
  mkdirSync(runDir, { mode: 0o700 });
  const { chownSync } = await import('node:fs');
  chownSync(runDir, 65534, 65534);
  const { output, ended } = demo([]);
  assert.equal(await ended, 1);
  assert.match(output.stderr, /must be a directory that belongs to user 0/);
  rmSync(runDir, { recursive: true });
  cleanUp();
});
