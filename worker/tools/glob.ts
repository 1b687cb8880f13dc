// The glob tool: finds files by name.
import { stat } from 'node:fs/promises';
import { resolve } from 'node:path';
import { defineTool, describe, ToolError } from './define-tool.ts';
import { compileGlob } from './glob-match.ts';
import { boundsOf, resolveInside } from './path-inside.ts';
import { showPath } from './show-path.ts';
import { MAX_TEXT_BYTES } from './text-limit.ts';
import { createCheckpoint, walkFiles } from './walk.ts';

const MAX_FILES = 1000;

interface Arguments {
  pattern?: string | null;
  path?: string | null;
}

export const globTool = defineTool<Arguments>({
  name: 'glob',
  description:
    'Finds files by a pattern: * and ? within a name, ** for any directories, [abc], {a,b}. "*.ts" matches only at ' +
    `the top, "**/*.ts" at any depth. Sorted by path, at most ${MAX_FILES}. Links to directories are not followed; ` +
    '.git and node_modules are left out unless path is inside them. Only inside the working directory and /tmp.',
  parameters: {
    type: 'object',
    properties: {
      pattern: { type: 'string', minLength: 1, maxLength: 1000, description: 'The pattern. Default "**/*".' },
      path: {
        type: 'string',
        minLength: 1,
        description: 'Directory to search. Default: the working directory.',
      },
    },
    additionalProperties: false,
  },
  effect: 'pure',
  async run({ pattern, path }, { cwd, signal }) {
    const bounds = await boundsOf(cwd);
    const start = await resolveInside(path ?? '.', bounds);
    if (!(await stat(start)).isDirectory()) throw new ToolError(`${path} is not a directory`);
    const keep = compileGlob(belowStart(pattern ?? '**/*', resolve(cwd, path ?? '.'), start));
    const gaps = { unreadable: 0 };
    const found: string[] = [];
    let bytes = 0;
    let stopped = '';
    const checkpoint = createCheckpoint(signal);
    let failure = '';
    try {
      for await (const file of walkFiles(start, { bounds, keep, checkpoint, gaps })) {
        const shown = showPath(file.path, cwd, start, path ?? '.');
        bytes += Buffer.byteLength(shown) + 1;
        if (found.length === MAX_FILES || bytes > MAX_TEXT_BYTES) {
          stopped = `\n[only the first ${found.length} are listed; narrow the pattern or the path]`;
          break;
        }
        found.push(shown);
      }
    } catch (error) {
      // What was found until then is worth telling.
      failure = `\nglob: ${describe(error)}`;
    }
    const unreadable =
      gaps.unreadable > 0 ? `\n[directories that could not be read: ${gaps.unreadable}]` : '';
    const list = found.length > 0 ? found.join('\n') : '[no files match]';
    return { content: list + stopped + unreadable + failure, isError: failure !== '' };
  },
});

/** An absolute pattern is taken when it lies below the searched directory. */
function belowStart(pattern: string, ...starts: string[]): string {
  if (pattern.split('/').includes('..')) throw new ToolError('".." has no place in a pattern; use path');
  if (!pattern.startsWith('/')) return pattern;
  for (const start of starts) {
    const prefix = start.endsWith('/') ? start : `${start}/`;
    if (pattern.startsWith(prefix)) return pattern.slice(prefix.length);
  }
  throw new ToolError('the pattern is absolute and not below the searched directory; use path');
}
