// Makes worker/dist/djinn.cjs: the worker as one CommonJS file without a dependency, for Node 18.17 and later. Run as
// a program it is the command line, required it is the package.
import { chmod, readFile, rename } from 'node:fs/promises';
import { fileURLToPath } from 'node:url';
import { build } from 'esbuild';

const worker = new URL('../worker/', import.meta.url);
const outfile = fileURLToPath(new URL('dist/djinn.cjs', worker));
const unfinished = `${outfile}.${process.pid}`;
const { version } = JSON.parse(await readFile(new URL('package.json', worker), 'utf8'));

/** Always needed, or loaded already when the worker starts. */
const EAGER = new Set(['node:fs', 'node:path', 'node:util']);

/**
 * Other built-in modules load when one of their names is first used: child_process, crypto, https and the like cost
 * 1 to 10 ms each, and many runs need none of them.
 */
const lateBuiltins = {
  name: 'late-builtins',
  setup(context) {
    context.onResolve({ filter: /^node:/ }, ({ path, namespace }) =>
      EAGER.has(path) || namespace === 'late' ? { path, external: true } : { path, namespace: 'late' },
    );
    context.onLoad({ filter: /.*/, namespace: 'late' }, async ({ path }) => {
      const names = Object.keys(await import(path)).filter(
        (name) => /^\w+$/.test(name) && name !== 'default',
      );
      const getters = names.map(
        (name) => `get ${name}() { return require(${JSON.stringify(path)}).${name}; }`,
      );
      return { contents: `module.exports = {\n  ${getters.join(',\n  ')},\n};\n`, loader: 'js' };
    });
  },
};

await build({
  plugins: [lateBuiltins],
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
  // Names stay: stack traces are read by people.
  minifyWhitespace: true,
  minifySyntax: true,
  logLevel: 'warning',
});
await chmod(unfinished, 0o755);
// Whoever starts the worker meanwhile gets the whole old file or the whole new one.
await rename(unfinished, outfile);
process.stdout.write(`worker/dist/djinn.cjs ${version}\n`);
