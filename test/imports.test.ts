// The import rules of biome.json: each boundary is shown to refuse a line that crosses it and to pass one that may.
import assert from 'node:assert/strict';
import { execFile } from 'node:child_process';
import { cp, mkdir, mkdtemp, rm, symlink, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { dirname, join } from 'node:path';
import { after, before, test } from 'node:test';
import { promisify } from 'node:util';

const run = promisify(execFile);
const root = join(import.meta.dirname, '..');
let tree: string;

before(async () => {
  tree = await mkdtemp(join(tmpdir(), 'djinnd-imports-'));
  await cp(join(root, 'biome.json'), join(tree, 'biome.json'));
  await symlink(join(root, 'node_modules'), join(tree, 'node_modules'));
  await run('git', ['init', '-q', tree]);
});
after(() => rm(tree, { recursive: true, force: true }));

/** True when a file at `path` that imports `source` passes the rule. */
async function allows(path: string, source: string): Promise<boolean> {
  await mkdir(dirname(join(tree, path)), { recursive: true });
  await writeFile(join(tree, path), `import { value } from '${source}';\nexport const copy = value;\n`);
  try {
    await run(
      join(root, 'node_modules/.bin/biome'),
      ['lint', '--only=style/noRestrictedImports', '--vcs-enabled=false', path],
      { cwd: tree },
    );
    return true;
  } catch (error) {
    assert.match(String((error as { stderr?: string }).stderr), /noRestrictedImports/);
    return false;
  } finally {
    await rm(join(tree, path));
  }
}

const RULES: [path: string, allowed: string[], refused: string[]][] = [
  [
    'worker/tools/a.ts',
    ['node:fs', '../protocol.ts', './b.ts'],
    ['pino', '../../daemon/errors.ts', '../../cgroups/index.ts'],
  ],
  [
    'cgroups/a.ts',
    ['node:fs', 'node:fs/promises', './types.ts'],
    ['execa', '../worker/protocol.ts', '../daemon/spawner/wire.ts'],
  ],
  [
    'daemon/spawner/a.ts',
    [
      'node:fs',
      'node:fs/promises',
      'execa',
      'pino',
      '../../cgroups/index.ts',
      '../../worker/protocol.ts',
      './wire.ts',
    ],
    ['pg', 'fastify', '../errors.ts', '../jobs/index.ts', '../../worker/run.ts'],
  ],
  [
    'daemon/db/a.ts',
    ['pg', '../errors.ts'],
    ['../jobs/index.ts', '../http/server.ts', '../spawner/client.ts', '../gateway/index.ts'],
  ],
  [
    'daemon/jobs/a.ts',
    ['pg', '../errors.ts', '../db/jobs.ts', '../spawner/client.ts', '../spawner/wire.ts'],
    ['../spawner/supervise.ts', '../http/server.ts', '../gateway/index.ts'],
  ],
  [
    'daemon/gateway/a.ts',
    ['node:http', '../db/jobs.ts'],
    ['../jobs/index.ts', '../http/server.ts', '../spawner/client.ts'],
  ],
  [
    'daemon/http/a.ts',
    ['fastify', '../jobs/index.ts', '../db/api-keys.ts', '../spawner/wire.ts'],
    ['../spawner/supervise.ts', '../gateway/index.ts', '../app.ts'],
  ],
];

for (const [path, allowed, refused] of RULES) {
  test(`${dirname(path)} may import what its boundary allows and nothing else`, async () => {
    for (const source of allowed) assert.equal(await allows(path, source), true, `${source} should pass`);
    for (const source of refused)
      assert.equal(await allows(path, source), false, `${source} should be refused`);
  });
}
