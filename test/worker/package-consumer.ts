// A project that has installed the packed runtime, and what is checked in it on one version of Node.
import assert from 'node:assert/strict';
import { execFile } from 'node:child_process';
import {
  mkdirSync,
  mkdtempSync,
  readdirSync,
  readFileSync,
  rmSync,
  symlinkSync,
  writeFileSync,
} from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import type { TestContext } from 'node:test';
import { fileURLToPath } from 'node:url';
import { promisify } from 'node:util';
import { contentChunk, startFakeOpenAI, toolCallChunk } from '../../worker/index.ts';
import { parseEvents, terminal } from './worker-process.ts';

const execute = promisify(execFile);
const root = fileURLToPath(new URL('../../', import.meta.url));

export interface Example {
  name: string;
  code: string;
  /** What it prints; null for code that is only to be type-checked. */
  output: string | null;
}

/** The examples of docs/runtime.md: blocks that begin with their file's name, followed by what they print. */
export function readExamples(): Example[] {
  const page = readFileSync(join(root, 'docs/runtime.md'), 'utf8');
  const blocks = page.matchAll(/```[jt]s\n(\/\/ (\S+)\n.*?)```\n(?:```text\n(.*?)```\n)?/gs);
  return [...blocks].map(([, code, name, output]) => ({
    name: name as string,
    code: code as string,
    output: output ?? null,
  }));
}

/** Packs the worker, installs it into a new project and writes the examples there. Gives the project's folder. */
export async function makeConsumer(t: TestContext): Promise<string> {
  const folder = mkdtempSync(join(tmpdir(), 'djinn-consumer-'));
  t.after(() => rmSync(folder, { recursive: true, force: true }));
  await execute('npm', ['pack', './worker', '--pack-destination', folder], { cwd: root });
  const tarball = readdirSync(folder).find((name) => name.endsWith('.tgz'));
  assert.ok(tarball);
  writeFileSync(join(folder, 'package.json'), '{ "private": true }\n');
  await execute('npm', ['install', '--offline', '--no-audit', '--no-fund', `./${tarball}`], { cwd: folder });
  for (const { name, code } of readExamples()) writeFileSync(join(folder, name), code);
  return folder;
}

/** Type-checks the TypeScript examples as a CommonJS and as an ES module, declarations included. */
export async function checkTypes(folder: string): Promise<void> {
  mkdirSync(join(folder, 'node_modules/@types'));
  for (const name of ['@types/node', 'undici-types']) {
    symlinkSync(join(root, 'node_modules', name), join(folder, 'node_modules', name));
  }
  for (const { name, code } of readExamples()) {
    if (name.endsWith('.mts')) writeFileSync(join(folder, name.replace('.mts', '.cts')), code);
  }
  const options = ['--noEmit', '--strict', '--module', 'nodenext', '--target', 'es2022', '--types', 'node'];
  const files = readdirSync(folder).filter((name) => /\.[cm]ts$/.test(name));
  assert.ok(files.length >= 2);
  const tsc = join(root, 'node_modules/typescript/bin/tsc');
  await execute(process.execPath, [tsc, ...options, '--ignoreConfig', ...files], { cwd: folder }).catch(
    (error: { stdout: string }) => assert.fail(error.stdout),
  );
}

/** `djinn` itself, `require`, `import` and every example of the docs on this Node. */
export async function checkOnNode(folder: string, node: string): Promise<void> {
  const fake = await startFakeOpenAI([
    { sse: [toolCallChunk('bash', { command: 'echo from the tool' })] },
    { sse: [contentChunk('北京')] },
  ]);
  const env = {
    PATH: process.env.PATH,
    DJINN_HOME: folder,
    DJINN_API_KEY: 'k',
    DJINN_API_BASE: fake.baseUrl,
  };
  try {
    const djinn = join(folder, 'node_modules/.bin/djinn');
    const { stdout, stderr } = await execute(node, [djinn, '-p', 'x'], { cwd: folder, env });
    const events = parseEvents(stdout);
    const last = terminal(events);
    assert.deepEqual([last.type === 'done' ? last.text : last, stderr], ['北京', '']);
    assert.ok(events.some((event) => event.type === 'tool_result' && event.content === 'from the tool\n'));
    assert.ok(fake.requests.every((request) => request.problems.length === 0));
  } finally {
    await fake.stop();
  }
  const names = "Object.keys(m).filter((name) => typeof m[name] === 'function').sort().join()";
  const required = await execute(node, ['-p', `const m = require('@djinn/runtime'); ${names}`], {
    cwd: folder,
  });
  const script = `import * as m from '@djinn/runtime'; import { run } from '@djinn/runtime'; console.log(${names}, typeof run)`;
  const imported = await execute(node, ['--input-type=module', '-e', script], { cwd: folder });
  assert.match(required.stdout, /contentChunk.*,run,.*startFakeOpenAI/);
  assert.equal(imported.stdout, required.stdout.replace('\n', ' function\n'));
  for (const { name, output } of readExamples()) {
    if (output === null) continue;
    const { stdout, stderr } = await execute(node, [name], { cwd: folder, env: { ...env, HOME: folder } });
    assert.deepEqual([stdout, stderr], [output, ''], name);
    rmSync(join(folder, 'sessions'), { recursive: true, force: true });
  }
}
