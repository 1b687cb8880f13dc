// The edit_file tool: exact replacements in a file, all of them or none. Bytes outside the matches never change.
import { resolve } from 'node:path';
import { replaceFile } from './atomic-replace.ts';
import { defineTool, describe, ToolError } from './define-tool.ts';
import { hashBytes } from './file-hash.ts';
import { withFileLock } from './file-lock.ts';
import { type Bounds, boundsOf, MissingFile, openInside, openPlace } from './path-inside.ts';
import { applyEdit, type Edit } from './text-edit.ts';
import type { Schema } from './validate-arguments.ts';

/** Larger files are for a script: the content is held in memory a few times. */
const MAX_EDIT_BYTES = 64 * 1024 * 1024;

interface Arguments extends Partial<Edit> {
  path: string;
  edits?: Edit[] | null;
}

const EDIT_FIELDS: Record<string, Schema> = {
  old_string: {
    type: 'string',
    description: 'Text to find, exactly as it is in the file. Must not be empty.',
  },
  new_string: { type: 'string', description: 'Text to put in its place.' },
  replace_all: { type: 'boolean', description: 'Replace every occurrence; else exactly one must exist.' },
};

export const editFileTool = defineTool<Arguments>({
  name: 'edit_file',
  description:
    'Replaces text in an existing file. Give old_string and new_string, or a list of edits that are applied one ' +
    'after the other: all of them or none. old_string must occur exactly once unless replace_all is true. Line ' +
    'endings match either way and stay as they are in the file. Only inside the working directory and /tmp.',
  parameters: {
    type: 'object',
    properties: {
      path: {
        type: 'string',
        minLength: 1,
        description: 'Path, relative to the working directory or absolute.',
      },
      ...EDIT_FIELDS,
      edits: {
        type: 'array',
        minItems: 1,
        description: 'Several edits instead of old_string and new_string.',
        items: {
          type: 'object',
          properties: EDIT_FIELDS,
          required: ['old_string', 'new_string'],
          additionalProperties: false,
        },
      },
    },
    required: ['path'],
    additionalProperties: false,
  },
  effect: 'write',
  async plan(args, { cwd }) {
    const { bytes } = await readForEdit(args.path, await boundsOf(cwd));
    const edited = applyEdits(bytes, editsOf(args));
    return { path: resolve(cwd, args.path), before: hashBytes(bytes), after: hashBytes(edited.bytes) };
  },
  async run(args, { cwd, signal }) {
    const edits = editsOf(args);
    const bounds = await boundsOf(cwd);
    const place = await openPlace(args.path, bounds, false);
    try {
      const replacements = await withFileLock(place.realPath, async () => {
        const { bytes, stat } = await readForEdit(args.path, bounds);
        const edited = applyEdits(bytes, edits);
        // Two texts that differ in line endings only: the file keeps its own.
        if (edited.bytes.equals(bytes)) {
          throw new ToolError('the edit changes nothing: line endings stay as they are in the file');
        }
        if (signal.aborted) throw new ToolError('cancelled; nothing was changed');
        await replaceFile(place, edited.bytes, (now) => {
          if (now?.ino !== stat.ino || now.mtimeMs !== stat.mtimeMs || now.size !== stat.size) {
            throw new ToolError(`${args.path} was changed by something else meanwhile; read it again`);
          }
        });
        return edited.replacements;
      });
      const count = replacements === 1 ? '1 replacement' : `${replacements} replacements`;
      return { content: `Edited ${args.path}: ${count}.`, isError: false };
    } finally {
      await place.directory.close();
    }
  },
});

function editsOf(args: Arguments): Edit[] {
  const single = args.old_string ?? args.new_string ?? null;
  if (args.edits && (single !== null || args.replace_all)) {
    throw new ToolError('give either edits or old_string and new_string, not both');
  }
  if (args.edits) return args.edits;
  const { old_string, new_string, replace_all } = args;
  if (typeof old_string !== 'string') throw new ToolError('old_string is missing: it is required');
  if (typeof new_string !== 'string') throw new ToolError('new_string is missing: it is required');
  return [{ old_string, new_string, ...(replace_all ? { replace_all } : {}) }];
}

async function readForEdit(path: string, bounds: Bounds) {
  const handle = await openInside(path, bounds).catch((error) => {
    if (error instanceof MissingFile) throw new ToolError(`${error.message}; write_file creates files`);
    throw error;
  });
  try {
    const stat = await handle.stat();
    if (stat.size > MAX_EDIT_BYTES) {
      throw new ToolError(`${path} has ${stat.size} bytes; files over ${MAX_EDIT_BYTES} are not edited`);
    }
    return { bytes: await handle.readFile(), stat };
  } finally {
    await handle.close();
  }
}

function applyEdits(bytes: Buffer, edits: Edit[]): { bytes: Buffer; replacements: number } {
  // latin1 maps each byte to one character and back, so bytes that are not UTF-8 survive.
  let text = bytes.toString('latin1');
  let replacements = 0;
  for (const [index, edit] of edits.entries()) {
    try {
      const applied = applyEdit(text, edit);
      text = applied.text;
      replacements += applied.replacements;
    } catch (error) {
      const which = edits.length > 1 ? `edit ${index + 1} of ${edits.length}: ` : '';
      throw new ToolError(`${which}${describe(error)}; the file is unchanged`);
    }
  }
  return { bytes: Buffer.from(text, 'latin1'), replacements };
}
