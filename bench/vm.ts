// Repeats the measurements in the virtual machine of test/vm, where every control is enforced. Its ratios count, its
// times do not: the machine is emulated.
import { spawn } from 'node:child_process';
import { copyFileSync, existsSync, mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';

const OPTIONS = ['--mem', '3072', '--timeout', '2700'];

/** Runs `bench/run.ts --quick` in it. Resolves with its exit code. */
export async function runInMachine(only: string | undefined, json: string | undefined): Promise<number> {
  const root = join(import.meta.dirname, '..');
  const share = mkdtempSync(join(tmpdir(), 'djinnd-bench-vm-'));
  const inside = join(share, 'figures.json');
  const bench = [process.execPath, join(import.meta.dirname, 'run.ts'), '--quick', '--json', inside];
  if (only !== undefined) bench.push('--only', only);
  const args = [...OPTIONS, '--share', share, '--cwd', root, '--', ...bench];
  try {
    const vm = spawn(join(root, 'test/vm/vm'), args, { stdio: ['ignore', 'inherit', 'inherit'] });
    const stop = (): void => void vm.kill('SIGTERM');
    process.once('SIGINT', stop).once('SIGTERM', stop);
    const code = await new Promise<number>((resolve, reject) => {
      vm.once('error', reject);
      vm.once('close', (status) => resolve(status ?? 1));
    });
    if (json !== undefined && existsSync(inside)) copyFileSync(inside, json);
    return code;
  } finally {
    rmSync(share, { recursive: true, force: true });
  }
}
