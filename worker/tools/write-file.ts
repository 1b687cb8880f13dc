// The write_file tool: the whole content of a file, exactly as given.
import { resolve } from 'node:path';
import { replaceFile, statFile } from './atomic-replace.ts';
import { defineTool, ToolError } from './define-tool.ts';
import { hashBytes, hashFile } from './file-hash.ts';
import { withFileLock } from './file-lock.ts';
import { boundsOf, openPlace } from './path-inside.ts';

interface Arguments {
  path: string;
  content: string;
}

export const writeFileTool = defineTool<Arguments>({
  name: 'write_file',
  description:
    'Creates a file or replaces its whole content, in one step. Missing parent directories are made. ' +
    'Only inside the working directory and /tmp. To change a part of a file use edit_file.',
  parameters: {
    type: 'object',
    properties: {
      path: {
        type: 'string',
        minLength: 1,
        description: 'Path, relative to the working directory or absolute.',
      },
      content: { type: 'string', description: 'The new content. May be empty.' },
    },
    required: ['path', 'content'],
    additionalProperties: false,
  },
  effect: 'write',
  async plan({ path, content }, { cwd }) {
    return {
      path: resolve(cwd, path),
      before: await hashFile(path, cwd),
      after: hashBytes(Buffer.from(content)),
    };
  },
  async run({ path, content }, { cwd, signal }) {
    const bytes = Buffer.from(content);
    const place = await openPlace(path, await boundsOf(cwd), true);
    try {
      const existed = await withFileLock(place.realPath, async () => {
        if (signal.aborted) throw new ToolError('cancelled; nothing was written');
        const old = await statFile(place);
        await replaceFile(place, bytes);
        return old !== null;
      });
      return {
        content: `${existed ? 'Replaced' : 'Created'} ${path}: ${bytes.length} bytes.`,
        isError: false,
      };
    } finally {
      await place.directory.close();
    }
  },
});
