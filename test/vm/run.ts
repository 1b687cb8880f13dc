// Runs the tests that need another kernel or systemd: boots each flavour of the virtual machine once, runs its
// files there under the pinned Node, and fails unless every machine came up and passed its tests.
//
//   node test/vm/run.ts [plain] [systemd] [FILE...]     both flavours and all of their files by default
import { spawn } from 'node:child_process';
import { globSync } from 'node:fs';
import { dirname, join } from 'node:path';
import { FLAVOURS, type Flavour, SUITES } from './suites.ts';
import { crashedFiles, judge, type Verdict } from './verdict.ts';

const MAX_CRASH_RUNS = 2;
const root = dirname(dirname(import.meta.dirname));
const isFlavour = (word: string): word is Flavour => (FLAVOURS as readonly string[]).includes(word);

/** Boots one machine, runs the files in it, passes its output on and judges it. */
function runFlavour(flavour: Flavour, files: string[]): Promise<Verdict & { crashed: string[] | null }> {
  const test = ['--test', '--test-concurrency=1', '--test-reporter=spec', ...files];
  const command = ['env', 'NO_COLOR=1', join(root, 'node_modules/.bin/node'), ...test];
  const args = [...SUITES[flavour].options, '--cwd', root, '--', ...command];
  const vm = spawn(join(import.meta.dirname, 'vm'), args, { stdio: ['ignore', 'pipe', 'inherit'] });
  const stop = (): void => void vm.kill('SIGTERM');
  process.once('SIGINT', stop).once('SIGTERM', stop);
  const chunks: Buffer[] = [];
  vm.stdout.on('data', (chunk: Buffer) => {
    chunks.push(chunk);
    process.stdout.write(chunk);
  });
  return new Promise((resolve) => {
    vm.on('error', (error) =>
      resolve({ ok: false, text: `the machine cannot be started: ${error.message}`, crashed: null }),
    );
    vm.on('close', (status) => {
      process.removeListener('SIGINT', stop).removeListener('SIGTERM', stop);
      const output = Buffer.concat(chunks).toString();
      resolve({ ...judge(output, status), crashed: crashedFiles(output) });
    });
  });
}

const words = process.argv.slice(2);
const chosen = words.filter(isFlavour);
const named = words.filter((word) => !isFlavour(word));
let failed = false;
for (const flavour of chosen.length > 0 ? chosen : FLAVOURS) {
  const all = SUITES[flavour].files.flatMap((pattern) => globSync(pattern, { cwd: root })).sort();
  const files = named.length > 0 ? named : all;
  const start = Date.now();
  process.stdout.write(`vm ${flavour}: ${files.length} files\n`);
  let verdict =
    files.length > 0
      ? await runFlavour(flavour, files)
      : { ok: false, text: 'no test file matches', crashed: null };
  // The emulator's own crashes, said openly: what they hit runs again in a fresh machine. Any other failure stays one.
  for (let tries = 1; !verdict.ok && verdict.crashed !== null && tries <= MAX_CRASH_RUNS; tries += 1) {
    const again = verdict.crashed;
    process.stdout.write(
      `vm ${flavour}: ${verdict.text}; the emulator crashed in ${again.join(' ')}: run again\n`,
    );
    verdict = await runFlavour(flavour, again);
  }
  const seconds = Math.round((Date.now() - start) / 1000);
  process.stdout.write(`vm ${flavour}: ${verdict.ok ? 'ok' : 'FAILED'}, ${verdict.text}, ${seconds} s\n`);
  failed ||= !verdict.ok;
}
process.exitCode = failed ? 1 : 0;
