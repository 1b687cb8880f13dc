// Makes worker/dist/djinn.cjs: the worker as one CommonJS file without a dependency, for Node 18.17 and later. Run as
// a program it is the command line, required it is the package.
import { chmod, readFile, rename } from 'node:fs/promises';
import { fileURLToPath } from 'node:url';
import { build } from 'esbuild';

const worker = new URL('../worker/', import.meta.url);
const outfile = fileURLToPath(new URL('dist/djinn.cjs', worker));
const unfinished = `${outfile}.${process.pid}`;
const { version } = JSON.parse(await readFile(new URL('package.json', worker), 'utf8'));

await build({
  stdin: {
    contents: `
      export * from './index.ts';
      import { main } from './cli.ts';
      if (require.main === module) void main(process.argv.slice(2));
    `,
    resolveDir: fileURLToPath(worker),
    sourcefile: 'entry.ts',
    loader: 'ts',
  },
  outfile: unfinished,
  bundle: true,
  platform: 'node',
  format: 'cjs',
  target: 'node18.17',
  // A late import becomes a late require: built-in modules load when they are needed, without the ESM loader.
  supported: { 'dynamic-import': false },
  banner: { js: '#!/usr/bin/env node' },
  define: { DJINN_VERSION: JSON.stringify(version) },
  legalComments: 'none',
  logLevel: 'warning',
});
await chmod(unfinished, 0o755);
// Whoever starts the worker meanwhile gets the whole old file or the whole new one.
await rename(unfinished, outfile);
process.stdout.write(`worker/dist/djinn.cjs ${version}\n`);
