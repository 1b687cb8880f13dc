// Makes worker/dist/types: the declarations of what the package exports, and of nothing else. A package.json beside
// them says that they and djinn.cjs are CommonJS, so that one set holds for `require` and for `import`.
import { execFile } from 'node:child_process';
import { mkdir, mkdtemp, readFile, rename, rm, writeFile } from 'node:fs/promises';
import { dirname, join, relative, resolve } from 'node:path';
import { fileURLToPath } from 'node:url';
import { promisify } from 'node:util';

const root = fileURLToPath(new URL('../', import.meta.url));
const dist = join(root, 'worker/dist');
const types = join(dist, 'types');

/** Adds the file and all that it imports. */
async function follow(file, found) {
  if (found.has(file)) return;
  found.add(file);
  const text = await readFile(file, 'utf8');
  for (const [, path] of text.matchAll(/from '(\.[^']+)\.ts'/g)) {
    await follow(resolve(dirname(file), `${path}.d.ts`), found);
  }
}

await mkdir(dist, { recursive: true });
const work = await mkdtemp(join(dist, '.types-'));
try {
  const all = join(work, 'all');
  const options = ['--declaration', '--emitDeclarationOnly', '--noEmit', 'false', '--outDir', all];
  const config = {
    extends: join(root, 'tsconfig.json'),
    files: [join(root, 'worker/index.ts')],
    include: [],
  };
  await writeFile(join(work, 'tsconfig.json'), JSON.stringify(config));
  const tsc = join(root, 'node_modules/typescript/bin/tsc');
  await promisify(execFile)(process.execPath, [
    tsc,
    '-p',
    join(work, 'tsconfig.json'),
    '--rootDir',
    join(root, 'worker'),
    ...options,
  ]);
  const found = new Set();
  await follow(join(all, 'index.d.ts'), found);
  const kept = join(work, 'kept');
  for (const file of found) {
    const target = join(kept, relative(all, file));
    await mkdir(dirname(target), { recursive: true });
    // `.js` is what every TypeScript resolves to the declarations beside it.
    const text = (await readFile(file, 'utf8')).replace(/(from '\.[^']+)\.ts'/g, "$1.js'");
    await writeFile(target, text);
  }
  await rm(types, { recursive: true, force: true });
  await rename(kept, types);
  await writeFile(join(dist, 'package.json'), '{ "type": "commonjs" }\n');
  process.stdout.write(`worker/dist/types ${found.size} files\n`);
} finally {
  await rm(work, { recursive: true, force: true });
}
